define flowop name=x { flowop x name=y }
define process name=p { thread name=t { flowop x name=z } }