"""What members say to each other: frames, the handshake, signed rows."""
