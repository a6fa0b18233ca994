# A database: 200 server processes read randomly, ten database writers write blocks asynchronously and synced, one log
# writer writes the log; semaphores couple them. $eventrate above 0 limits the transactions per second.
# Facts: Filebench 1.5-alpha3, personality of the same name.

set $eventrate=0
set $filesize=10m
set $logfilesize=10m
set $nfiles=10
set $nlogfiles=1
set $nshadows=200
set $ndbwriters=10
set $iosize=2k
set $logiosize=256k
set $usermode=200000
set $memperthread=1m
set $runtime=60

eventgen rate=$eventrate

define fileset name=datafiles, path=$dir, entries=$nfiles, size=$filesize, dirwidth=1024, prealloc=100, reuse
define fileset name=logfile, path=$dir, entries=$nlogfiles, size=$logfilesize, dirwidth=1024, prealloc=100, reuse

define process name=lgwr, instances=1
{
  thread name=lgwr, memsize=$memperthread
  {
    flowop aiowrite name=lg-write, filesetname=logfile, iosize=$logiosize, random, dsync
    flowop aiowait name=lg-aiowait
    flowop semblock name=lg-block, value=3200, highwater=1000
  }
}

define process name=dbwr, instances=$ndbwriters
{
  thread name=dbwr, memsize=$memperthread
  {
    flowop aiowrite name=dbwrite-a, filesetname=datafiles, iosize=$iosize, random, iters=100, opennext, dsync
    flowop hog name=dbwr-hog, value=10000
    flowop semblock name=dbwr-block, value=1000, highwater=2000
    flowop aiowait name=dbwr-aiowait
  }
}

define process name=shadow, instances=$nshadows
{
  thread name=shadow, memsize=$memperthread
  {
    flowop read name=shadowread, filesetname=datafiles, iosize=$iosize, random, opennext
    flowop hog name=shadowhog, value=$usermode
    flowop sempost name=shadow-post-lg, value=1, target=lg-block, blocking
    flowop sempost name=shadow-post-dbwr, value=1, target=dbwr-block, blocking
    flowop eventlimit name=random-rate
  }
}

run $runtime
