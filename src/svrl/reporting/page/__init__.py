"""The report on the paper as one page of HTML and as pages of Markdown, from plain data."""
