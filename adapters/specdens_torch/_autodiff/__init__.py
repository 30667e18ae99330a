"""Products with Jacobians and Hessians by automatic differentiation."""
