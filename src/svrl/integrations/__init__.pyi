from .pytorch import structured as structured
from .pytorch import structured_quantiles as structured_quantiles
from .pytorch import structured_values as structured_values
from .target_hook import RankMonitor as RankMonitor
from .target_hook import TargetHook as TargetHook
from .target_hook import structure as structure
