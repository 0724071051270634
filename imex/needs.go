package imex

import (
	"cmp"
	"errors"
	"strconv"

	"github.com/quoin-hpc/quoin/topology"
)

// DomainLabel is the Node label that holds the UID of the node's ComputeDomain. The
// driver starts the IMEX daemon of a node that has it.
const DomainLabel = "resource.nvidia.com/computeDomain"

// channelDir is where a machine has its device files of channels.
const channelDir = "/dev/nvidia-caps-imex-channels"

// checkNeed is about nodes that have nothing to join.
func checkNeed(v *view, n *node) finding {
	switch {
	case n.Fabric == FabricNone && n.Why.Reason == topology.ReasonDomainImplausible:
		return finding{reason: ReasonNoMultiNodeNVLink, message: n.Why.Message + ": jobs need no IMEX here"}
	case n.Fabric == FabricNone:
		return finding{reason: ReasonNoMultiNodeNVLink, message: "NVLink connects none of its GPUs to another node: jobs need no IMEX here"}
	case v.Join == JoinHost && (n.Local == nil || !n.Local.HostService) && v.Domain.Problem.Reason == ReasonNoDriver:
		return checkDomain(v, n)
	case v.Join == JoinNone:
		return finding{reason: ReasonNotWanted, message: cmp.Or(v.Why, "imex.join is none") + ": nodes join no domain"}
	case n.Fabric == FabricUnknown && n.Clique == "" && namesNoClique(n.CliqueLabel):
		return finding{reason: ReasonNoMultiNodeNVLink, message: "label " + topology.CliqueLabel + " is " + n.CliqueLabel + ", which names no clique: jobs need no IMEX here"}
	}
	return finding{}
}

// namesNoClique reports whether a clique label says that there is no clique.
func namesNoClique(label string) bool {
	if label == "" {
		return false
	}
	_, err := topology.ParseClique(label)
	return errors.Is(err, topology.ErrNoDomain)
}

// checkDomain is about a domain that no node can join.
func checkDomain(v *view, _ *node) finding {
	p := &v.Domain.Problem
	f := finding{reason: p.Reason, message: p.Message, remedy: p.Remedy, others: p.Reason == DomainDiffers}
	if p.Reason != "" && p.Reason != ReasonNoDriver {
		f.reason = ReasonDomainProblem
	}
	return f
}

// pluginLog is what to do when the driver's kubelet plugin does not do its work.
const pluginLog = "read the log of the DRA driver's kubelet plugin on the node (manifests/RUNBOOKS.md names what it may say)"

// domainText names the domain that the node is to join.
func domainText(v *view, n *node) string {
	if v.Domain.Name == "" {
		return n.wanted
	}
	return n.wanted + " (" + v.Domain.Namespace + "/" + v.Domain.Name + ")"
}

// checkFabric is about a node whose fabric is not ready, or whose clique is not known. A node without GPUs
// has a claim only by mistake, and checkRivals says more about that.
func checkFabric(_ *view, n *node) finding {
	if n.Fabric == FabricNotReady {
		return finding{reason: ReasonFabricNotReady, message: n.Why.Message, remedy: n.Why.Remedy}
	}
	if n.own != nil || !n.GPUs && len(n.claims) > 0 {
		return finding{}
	}
	return n.unknownFabric()
}

func (n *node) unknownFabric() finding {
	return finding{reason: ReasonUnknown, message: "its NVLink clique is not known: neither the node's report nor label " + topology.CliqueLabel + " names it",
		remedy: "look for problems in the node's report, and run quoin discover on the node; find out why Quoin's agent does not run there if there is no report"}
}

// checkMachine is about a machine on which the driver's daemon cannot work.
func checkMachine(v *view, n *node) finding {
	switch {
	case n.Local == nil:
	case n.Local.HostService && v.Join != JoinHost:
		return finding{reason: ReasonConflict, message: "nvidia-imex.service runs on the host" + n.daemonText() + ": it and the DRA driver's daemon cannot run side by side (NV_ERR_IN_USE)",
			remedy: "run systemctl disable --now nvidia-imex.service on the node, then delete the node's pod of the DRA driver's daemon"}
	case n.Local.ChannelMajor == nil:
		return finding{reason: ReasonFabricNotReady, message: "/proc/devices has no nvidia-caps-imex-channels: the loaded NVIDIA driver offers no channels",
			remedy: "load an NVIDIA driver that has IMEX, without the option NVreg_ImexChannelCount=0; then restart what runs the node's IMEX daemon: nvidia-imex.service, or the DRA driver's kubelet plugin"}
	case v.HostChannels && n.Local.Channels == 0:
		return finding{reason: ReasonFabricNotReady, message: channelDir + " of the node has no channel, and jobs use the node's own channels (imex.hostChannels): without a channel CUDA refuses memory of other nodes",
			remedy: "put options nvidia NVreg_CreateImexChannel0=1 into /etc/modprobe.d, so that the NVIDIA driver creates channel0 when it is loaded; until then run mkdir -p " + channelDir +
				" and mknod -m 666 " + channelDir + "/channel0 c " + strconv.Itoa(*n.Local.ChannelMajor) + " 0; or set imex.hostChannels to false if switch/nvidia_imex or a claim gives jobs their channels"}
	}
	return finding{}
}

// checkLabel is about a node whose claim the driver has not prepared.
func checkLabel(_ *view, n *node) finding {
	if n.DomainLabel != "" || len(n.claims) == 0 {
		return finding{}
	}
	return finding{reason: ReasonNotRegistered,
		message: "the node has no label " + DomainLabel + ", which starts its daemon: the driver has prepared no claim, although " + n.claims[0].text(),
		remedy:  "wait; if that takes long, " + pluginLog + "; if another claim has ended there, which removes the label, delete pod " + n.claims[0].pods()}
}
