"""Who a member is and what was agreed: certificates, keys, the signed contract."""
