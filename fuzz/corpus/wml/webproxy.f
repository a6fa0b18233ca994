# A web proxy: a hundred threads each replace one cached object and read five in one directory.
# $eventrate above 0 limits the operations per second of all threads together.
# Facts: Filebench 1.5-alpha3, personality of the same name.

set $nfiles=10000
set $nthreads=100
set $meandirwidth=1000000
set $meanfilesize=16k
set $iosize=1m
set $meanappendsize=16k
set $memsize=1m
set $eventrate=0
set $runtime=60

eventgen rate=$eventrate

define fileset name=bigfileset, path=$dir, entries=$nfiles, size=$meanfilesize, dirwidth=$meandirwidth, prealloc=80

define process name=proxycache, instances=1
{
  thread name=proxycache, instances=$nthreads, memsize=$memsize
  {
    flowop deletefile name=deletefile1, filesetname=bigfileset
    flowop createfile name=createfile1, filesetname=bigfileset, fd=1
    flowop appendfilerand name=appendfilerand1, iosize=$meanappendsize, fd=1
    flowop closefile name=closefile1, fd=1
    flowop openfile name=openfile2, filesetname=bigfileset, fd=1
    flowop readwholefile name=readfile2, fd=1, iosize=$iosize
    flowop closefile name=closefile2, fd=1
    flowop openfile name=openfile3, filesetname=bigfileset, fd=1
    flowop readwholefile name=readfile3, fd=1, iosize=$iosize
    flowop closefile name=closefile3, fd=1
    flowop openfile name=openfile4, filesetname=bigfileset, fd=1
    flowop readwholefile name=readfile4, fd=1, iosize=$iosize
    flowop closefile name=closefile4, fd=1
    flowop openfile name=openfile5, filesetname=bigfileset, fd=1
    flowop readwholefile name=readfile5, fd=1, iosize=$iosize
    flowop closefile name=closefile5, fd=1
    flowop openfile name=openfile6, filesetname=bigfileset, fd=1
    flowop readwholefile name=readfile6, fd=1, iosize=$iosize
    flowop closefile name=closefile6, fd=1
    flowop opslimit name=limit
  }
}

run $runtime
