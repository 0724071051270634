package imex

import "strconv"

// checkHost is about a node whose own nvidia-imex.service is to serve.
func checkHost(_ *view, n *node) finding {
	switch {
	case n.Local == nil:
		return finding{reason: ReasonUnknown, message: "the node has no report, so the state of its nvidia-imex.service is not known", remedy: "find out why Quoin's agent does not run there; for quoin imex check, list nodereports too"}
	case !n.Local.HostService:
		return finding{reason: ReasonNotReady, message: "nvidia-imex.service does not run on the host",
			remedy: "run systemctl enable --now nvidia-imex.service on the node; journalctl -u nvidia-imex says why it ended"}
	case n.Local.DaemonState == "":
		return finding{reason: ReasonUnknown, message: "nvidia-imex.service runs, and nobody could ask it for its state",
			remedy: "look for ImexUnreadable among the problems of the node's report: the agent needs nvidia-imex-ctl, and in the service's configuration IMEX_CMD_ENABLED=1 and a socket or port"}
	case n.Local.DaemonState != DaemonReady && n.listsTooMany():
		return finding{reason: ReasonNotReady, message: "nvidia-imex.service says " + n.Local.DaemonState + ", and " + n.tooMany(), remedy: remedyTooMany}
	case n.Local.DaemonState != DaemonReady:
		return finding{reason: ReasonNotReady, message: "nvidia-imex.service says " + n.Local.DaemonState,
			remedy: "wait, because the service waits for its peers; if that takes long, compare nodes_config.cfg on the nodes of the clique (quoin imex nodes-config prints it) and read journalctl -u nvidia-imex"}
	}
	return finding{reason: ReasonReady, message: "nvidia-imex.service says " + DaemonReady}
}

// listsTooMany reports whether the list of the node's own service has more nodes than NVLink joins.
func (n *Node) listsTooMany() bool {
	return n.Local != nil && n.Local.HostService && n.MaxNodes > 0 && n.Listed > n.MaxNodes
}

func (n *Node) tooMany() string {
	return "nodes_config.cfg has " + strconv.Itoa(n.Listed) + " nodes, and NVLink joins at most " + strconv.Itoa(n.MaxNodes) + " such nodes"
}

const remedyTooMany = "let nodes_config.cfg have the nodes of one clique alone: quoin imex nodes-config prints them"
