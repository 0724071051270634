package imex

import (
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
	case n.Fabric == FabricNone:
		return finding{reason: ReasonNoMultiNodeNVLink, message: "NVLink connects none of its GPUs to another node: jobs need no IMEX here"}
	case v.Join == JoinNone:
		return finding{reason: ReasonNotWanted, message: "imex.join is none: nodes join no domain"}
	case n.Clique == "" && namesNoClique(n.CliqueLabel):
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
	return finding{p.Reason, p.Message, domainRemedies[p.Reason]}
}

// domainRemedies are what to do about a domain's problem, by its reason.
var domainRemedies = map[string]string{
	ReasonNoDomain:        "wait until the publisher creates the domain; if that takes long, its log says why it cannot",
	ReasonNoDriver:        "nothing, if the site runs IMEX otherwise or not at all; else install NVIDIA's DRA driver with compute domains",
	ReasonDomainDiffers:   "set the keys below imex to what the domain has, because its spec cannot be changed; or delete the domain as manifests/RUNBOOKS.md says, and the publisher creates it again",
	ReasonDomainForbidden: "allow the publisher to get, list, watch and create ComputeDomains",
	ReasonDomainDeleting:  "start no job across nodes; end the pods that claim its channels, so that the deletion completes and the publisher creates the domain again",
}

// domainText names the domain that the node is to join.
func domainText(v *view, n *node) string {
	if v.Domain.Name == "" {
		return n.wanted
	}
	return n.wanted + " (" + v.Domain.Namespace + "/" + v.Domain.Name + ")"
}

// checkFabric is about a node whose clique is not known. A node without GPUs has a
// claim only by mistake, and checkRivals says more about that.
func checkFabric(_ *view, n *node) finding {
	if n.own != nil || !n.GPUs && len(n.claims) > 0 {
		return finding{}
	}
	return unknownFabric()
}

func unknownFabric() finding {
	return finding{ReasonFabricUnknown, "its NVLink clique is not known: neither the node's report nor label " + topology.CliqueLabel + " names it",
		"wait while its GPUs register with the NVLink fabric; if that takes long, run quoin discover on the node and read the fabric manager's log"}
}

// checkMachine is about a machine on which the driver's daemon cannot work.
func checkMachine(v *view, n *node) finding {
	switch {
	case n.Local == nil:
	case n.Local.HostService:
		return finding{ReasonHostService, "nvidia-imex.service runs on the host" + daemonText(n) + ": it and the DRA driver's daemon cannot run side by side (NV_ERR_IN_USE)",
			"run systemctl disable --now nvidia-imex.service on the node, then delete the node's pod of the DRA driver's daemon"}
	case n.Local.ChannelMajor == nil:
		return finding{ReasonNoChannelMajor, "/proc/devices has no nvidia-caps-imex-channels: the loaded NVIDIA driver offers no channels",
			"load an NVIDIA driver that has IMEX, without the option NVreg_ImexChannelCount=0; then restart the DRA driver's kubelet plugin on the node"}
	case v.HostChannels && n.Local.Channels == 0:
		return finding{ReasonNoChannels, channelDir + " of the node has no channel, and jobs use the node's own channels (imex.hostChannels): without a channel CUDA refuses memory of other nodes",
			"put options nvidia NVreg_CreateImexChannel0=1 into /etc/modprobe.d, so that the NVIDIA driver creates channel0 when it is loaded; until then run mkdir -p " + channelDir +
				" and mknod -m 666 " + channelDir + "/channel0 c " + strconv.Itoa(*n.Local.ChannelMajor) + " 0; or set imex.hostChannels to false if switch/nvidia_imex or a claim gives jobs their channels"}
	}
	return finding{}
}

// daemonText says what the local daemon says of itself, if that is known.
func daemonText(n *node) string {
	if n.Local == nil || n.Local.DaemonState == "" {
		return ""
	}
	return " (the local daemon says " + n.Local.DaemonState + ")"
}

// checkLabel is about a node whose claim the driver has not prepared.
func checkLabel(_ *view, n *node) finding {
	if n.DomainLabel != "" {
		return finding{}
	}
	message := "the node has no label " + DomainLabel + ", which starts its daemon: the driver has prepared no claim"
	remedy := "wait; if that takes long, find out which pod on the node claims a channel, and read the log of the DRA driver's kubelet plugin there"
	if len(n.claims) > 0 {
		message += ", although " + n.claims[0].text()
		remedy = "wait; if that takes long, read the log of the DRA driver's kubelet plugin on the node; if another claim has ended there, which removes the label, delete pod " + n.claims[0].pods()
	}
	return finding{ReasonNotPrepared, message, remedy}
}
