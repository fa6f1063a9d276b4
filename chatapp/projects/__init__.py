"""What people do with a project: create, change, archive and delete it, add members and files. Each
act is in the activity log."""
