"""The only place that knows DVC: its hook points, how to read it, how to have it do things."""
