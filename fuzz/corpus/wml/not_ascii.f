set $é=1 # €
	define	fileset	name=�