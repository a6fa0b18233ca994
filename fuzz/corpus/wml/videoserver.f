# A video server: forty-eight viewers stream from 32 active videos at a limited rate while one writer replaces a passive
# video every ten seconds. At full size the file sets hold about 2.2 TiB; $filesize is what --scale shrinks.
# Facts: Filebench 1.5-alpha3, personality of the same name (which has no run command; this one runs its default time).

set $eventrate=96
set $filesize=10g
set $nthreads=48
set $numactivevids=32
set $numpassivevids=194
set $readiosize=256k
set $writeiosize=1m
set $repintval=10

eventgen rate=$eventrate

define fileset name=activevids, path=$dir, entries=$numactivevids, size=$filesize, dirwidth=4, prealloc, paralloc
define fileset name=passivevids, path=$dir, entries=$numpassivevids, size=$filesize, dirwidth=20, prealloc=50, paralloc

define process name=vidwriter, instances=1
{
  thread name=vidwriter, instances=1, memsize=10m
  {
    flowop deletefile name=vidremover, filesetname=passivevids
    flowop createfile name=wrtopen, filesetname=passivevids, fd=1
    flowop writewholefile name=newvid, iosize=$writeiosize, fd=1, srcfd=1
    flowop closefile name=wrtclose, fd=1
    flowop delay name=replaceinterval, value=$repintval
  }
}

define process name=vidreaders, instances=1
{
  thread name=vidreaders, instances=$nthreads, memsize=10m
  {
    flowop read name=vidreader, filesetname=activevids, iosize=$readiosize
    flowop bwlimit name=serverlimit, target=vidreader
  }
}
