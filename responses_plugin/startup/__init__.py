"""What makes ``vllm-mlx serve`` know the flag without being told: two start-up files, and how a wheel ships them."""
