# Every construct once.
set $dir=/tmp
set $n=16k
set $flag=true
set $text="two words, $n, cost \$5\n"
set $u=randvar(type=uniform, mean=8k, min=1k, round=512, seed=7, randsrc=rand48)
set $g=randvar(type=gamma, mean=8k, gamma=1500, randsrc=urandom)
set $t=randvar(type=tabular, min=1k, randtable={{80, 1k, 4k}, {15, 4k, 16k}, {05, 16k, 64k}})
define randvar name=$old, type=uniform, mean=2
set $c1=cvar(type=cvar-uniform,parameters=lower:1;upper:9,min=2,max=8,round=2)
set $c2=cvar(type=cvar-gamma,parameters=mean:4096;gamma:1.5)
set $c3=cvar(type=cvar-exponential,parameters=mean:5)
set $c4=cvar(type=cvar-erlang,parameters=shape:2;rate:5)
set $c5=cvar(type=cvar-normal,parameters=mean:5;sigma:1.5)
set $c6=cvar(type=cvar-lognormal,parameters=shape:1;scale:2)
set $c7=cvar(type=cvar-triangular,parameters=lower:1;upper:9;mode:3)
set $c8=cvar(type=cvar-weibull,parameters=shape:1;scale:2)
set mode quit alldone
set mode nousestats
debug 1
enable lathist
version
eventgen rate=1000
define fileset name=a, path=$dir, entries=10, size=$c2, dirwidth=4, dirdepthrv=$u, dirgamma=1500, leafdirs=3, prealloc=80, paralloc, reuse, readonly=false, trusttree=false, cached=$flag
define file name=one, path=$dir, size=1m, prealloc, writeonly
define flowop name=copy, $from, $times=2
{
  flowop openfile name=o, filesetname=$from, fd=1, indexed=$u
  flowop readwholefile name=r, fd=1, iosize=$n, iters=$times
  flowop closefile name=c, fd=1
}
define process name=p, instances=2, nice=1
{
  thread name=t, memsize=1m, instances=2, ioprio=4, useism
  {
    flowop copy name=twice, iters=2, $from=a
    flowop write name=w, filesetname=one, iosize=$t, random, workingset=64k, dsync, directio, noreadahead, fd=3
    flowop aiowrite name=aw, filesetname=a, iosize=2k, random, opennext
    flowop aiowait name=ai, target=aw
    flowop block name=b
    flowop semblock name=sb, value=3, highwater=9
    flowop opslimit name=l, target=w
    flowop print name=say, value="hello"
  }
  thread name=u
  {
    flowop wakeup name=wk, target=b
    flowop sempost name=sp, target=sb, value=1, blocking
    flowop finishoncount name=f, value=100
  }
}
list fileset
create files
system "true"
echo "$text on ${hostname}"
sleep 1
psrun -10 60
