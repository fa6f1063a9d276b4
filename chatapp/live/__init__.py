"""The journal as frames for open tabs: hub, feeds, open parts and page views."""
