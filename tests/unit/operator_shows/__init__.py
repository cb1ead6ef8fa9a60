"""What the operator shows of itself: metrics, pulse, logs, events, and the pages about them."""
