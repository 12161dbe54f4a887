"""The command line: one file a subcommand. Nothing heavy is imported before a command runs."""
