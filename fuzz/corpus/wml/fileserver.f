# A file server: fifty users in a home-directory tree create, write, append to, read, delete and look up whole files.
# Reads and writes are one to two. Facts: Filebench 1.5-alpha3, personality of the same name.

set $nfiles=10000
set $nthreads=50
set $meandirwidth=20
set $filesize=cvar(type=cvar-gamma,parameters=mean:131072;gamma:1.5)
set $iosize=1m
set $meanappendsize=16k
set $memsize=10m
set $runtime=60

define fileset name=bigfileset, path=$dir, entries=$nfiles, size=$filesize, dirwidth=$meandirwidth, prealloc=80

define process name=filereader, instances=1
{
  thread name=filereaderthread, instances=$nthreads, memsize=$memsize
  {
    flowop createfile name=createfile1, filesetname=bigfileset, fd=1
    flowop writewholefile name=writewholefile1, srcfd=1, fd=1, iosize=$iosize
    flowop closefile name=closefile1, fd=1
    flowop openfile name=openfile1, filesetname=bigfileset, fd=1
    flowop appendfilerand name=appendfilerand1, iosize=$meanappendsize, fd=1
    flowop closefile name=closefile2, fd=1
    flowop openfile name=openfile2, filesetname=bigfileset, fd=1
    flowop readwholefile name=readwholefile1, fd=1, iosize=$iosize
    flowop closefile name=closefile3, fd=1
    flowop deletefile name=deletefile1, filesetname=bigfileset
    flowop statfile name=statfile1, filesetname=bigfileset
  }
}

run $runtime
