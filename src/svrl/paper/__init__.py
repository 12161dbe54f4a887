"""The paper: its experiments, a file each in `svrl.paper.experiments`, and what computes, judges and draws them."""
