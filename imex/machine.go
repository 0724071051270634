package imex

import (
	"strconv"

	"github.com/quoin-hpc/quoin/topology"
)

// DomainLabel is the Node label that holds the UID of the node's ComputeDomain. The
// driver starts the IMEX daemon of a node that has it.
const DomainLabel = "resource.nvidia.com/computeDomain"

// channelDir is where a machine has its device files of channels.
const channelDir = "/dev/nvidia-caps-imex-channels"

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
