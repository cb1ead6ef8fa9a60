"""Settings of the operator, and the page that is made from them."""
