"""Methods whose gradients lose their variance."""
