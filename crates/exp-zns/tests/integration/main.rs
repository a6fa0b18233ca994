mod zns_bounds;
