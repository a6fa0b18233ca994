set $a=
set $a=12q
"open
$
${x
define fileset name=a,path=$dir,entries=99999999999999999999