"""The report on the paper as one page of HTML, as pages of Markdown, and as a PDF."""
