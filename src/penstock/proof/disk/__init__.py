"""Failing disks."""
