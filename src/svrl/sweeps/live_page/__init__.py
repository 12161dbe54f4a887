"""A sweep as a local web page that keeps itself up to date: `serve`."""

from svrl.sweeps.live_page.server import LivePage, serve

__all__ = ["LivePage", "serve"]
