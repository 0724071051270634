package simulated

import (
	"regexp"

	"github.com/quoin-hpc/quoin/topology"
)

// imexState matches a state as nvidia-imex-ctl prints it.
var imexState = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// maxIMEXChannels is how many channels the driver has.
const maxIMEXChannels = 2048

// check returns what is wrong. nil is valid.
func (i *imexFacts) check() error {
	switch {
	case i == nil:
		return nil
	case i.Major != nil && (*i.Major < 0 || *i.Major > 4095):
		return bad("imex.major", "%d: want 0 to 4095", *i.Major)
	case i.Channels < 0 || i.Channels > maxIMEXChannels:
		return bad("imex.channels", "%d: want 0 to %d", i.Channels, maxIMEXChannels)
	case i.Major == nil && *i != (imexFacts{}):
		return bad("imex.major", "missing: want it, such as 235, beside any other key of imex")
	case i.Daemon != "" && !imexState.MatchString(i.Daemon):
		return bad("imex.daemon", "%q: want a state such as READY or WAITING_FOR_PEERS", i.Daemon)
	case i.Domain != "" && !imexState.MatchString(i.Domain):
		return bad("imex.domain", "%q: want a state such as UP, DEGRADED or DOWN", i.Domain)
	}
	return nil
}

// facts returns the IMEX part of a report.
func (i *imexFacts) facts() *topology.IMEX {
	if i == nil {
		return nil
	}
	return &topology.IMEX{ChannelMajor: i.Major, Channels: i.Channels, DaemonState: i.Daemon, DomainState: i.Domain, HostService: i.HostService}
}
