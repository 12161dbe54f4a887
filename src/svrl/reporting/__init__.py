"""Pictures and tables. The only place, with the experiments' figures, that imports matplotlib."""
