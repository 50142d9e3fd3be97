"""Recording accesses in bursts, and estimating the whole run from them."""
