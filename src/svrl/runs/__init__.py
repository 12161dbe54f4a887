"""Many runs: what a sweep file asks for, carried out by processes of one machine or by a Ray cluster."""
