// Package local reads what a node itself says of IMEX: its device files of channels,
// its daemon and the host's own nvidia-imex.service.
//
// The daemon is asked by nvidia-imex-ctl, which may hang: each question is bounded in
// time, and the program is killed with all that it started.
package local

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

// The files of a machine's IMEX, below its root.
const (
	devicesFile   = "proc/devices"
	statFile      = "proc/stat"
	channelDevice = "nvidia-caps-imex-channels"
	channelDir    = "dev/nvidia-caps-imex-channels"
	hostService   = "system.slice/nvidia-imex.service"
)

// unreadable is the reason of the problems that [Reader.Read] finds.
const unreadable = "ImexUnreadable"

// Options say which machine a [Reader] reads, and how long a reading may take.
type Options struct {
	// Root is the folder that has the machine's proc, dev, etc, run and var.
	Root string
	// Cgroups is the mount point of the machine's control groups, by default
	// sys/fs/cgroup of Root.
	Cgroups string
	// Patience is how long a reading waits for nvidia-imex-ctl. A later answer is in the
	// next reading. Zero is for a single reading: it waits until the program ends or is
	// killed.
	Patience time.Duration
}

// Reader reads what a machine itself says of IMEX: its channels, its daemon, and a host
// service that gets in the daemon's way. It is for one goroutine.
type Reader struct {
	root, cgroups string
	ctl           ctl
}

// New returns a reader of the machine. It touches nothing yet.
func New(o Options) *Reader {
	r := &Reader{root: o.Root, cgroups: o.Cgroups, ctl: ctl{patience: o.Patience, timeout: askTimeout}}
	if r.cgroups == "" {
		r.cgroups = filepath.Join(o.Root, "sys/fs/cgroup")
	}
	if r.ctl.patience == 0 {
		r.ctl.patience = askTimeout + dieWithin
	}
	return r
}

// Read reads the machine. A fact that cannot be read is absent, with a problem. A state
// of the daemon outlives one question without an answer. Drivers offer channels on
// machines that need none too. Therefore Read asks a daemon only if a GPU is in a clique.
// In a clique a driver without channels gives facts without a major number; outside a
// clique it gives no facts.
func (r *Reader) Read(inClique bool) (*topology.IMEX, []topology.Finding) {
	var p problems
	facts := r.readFiles(inClique, &p)
	if facts == nil || facts.ChannelMajor == nil || !inClique {
		r.ctl.forget()
		return facts, p
	}
	r.readStates(facts, &p)
	return facts, p
}

// readFiles reads what the machine's files say.
func (r *Reader) readFiles(inClique bool, p *problems) *topology.IMEX {
	major, err := readMajor(filepath.Join(r.root, devicesFile))
	switch {
	case errors.Is(err, fs.ErrNotExist): // no machine's root
		return nil
	case err != nil:
		p.add("channel major", err)
		return nil
	case major == nil && inClique:
		return &topology.IMEX{}
	case major == nil:
		return nil
	}
	facts := &topology.IMEX{ChannelMajor: major}
	if facts.Channels, err = countChannels(filepath.Join(r.root, channelDir)); err != nil {
		p.add("channels", err)
	}
	if !inClique {
		return facts
	}
	if facts.HostService, err = readHostService(r.cgroups); err != nil {
		p.add("the machine's nvidia-imex.service", err)
	}
	return facts
}

// readStates adds what nvidia-imex-ctl says, if there is a daemon to ask.
func (r *Reader) readStates(facts *topology.IMEX, p *problems) {
	d, err := r.findDaemon(facts.HostService)
	if err != nil || d == nil {
		r.ctl.forget()
		p.add("daemon's state", err)
		return
	}
	if !facts.HostService {
		facts.DaemonAddress = d.config.address
		defer func() {
			if facts.DaemonState == "" {
				facts.DaemonFault = r.fault(d)
			}
		}()
	}
	q, err := r.question(d)
	if err != nil {
		r.ctl.forget()
		p.add("daemon's state", err)
		return
	}
	answer := r.ctl.ask(*q)
	facts.DaemonState = answer.daemon.state
	facts.DomainState, facts.Peers = answer.domain.state, answer.domain.peers
	p.add("daemon's state", answer.daemon.err)
	p.add("domain's state", answer.domain.err)
	if facts.HostService && !q.domain {
		p.add("domain's state", fmt.Errorf("%s, which lists the nodes of the domain, is not there; in a container mount its folder by the same path", q.nodes))
	}
}

// problems are the reasons why facts could not be read.
type problems []topology.Finding

// add adds the reason why a fact could not be read, unless err is nil.
func (p *problems) add(fact string, err error) {
	if err != nil {
		*p = append(*p, topology.Finding{Reason: unreadable, Message: fmt.Sprintf("IMEX: %s: %v", fact, err)})
	}
}

// readMajor reads the channels' device major, nil if there is none.
func readMajor(path string) (*int, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	major, err := parseMajor(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return major, nil
}

// maxMajor is the greatest device major of Linux, of 12 bits.
const maxMajor = 1<<12 - 1

// parseMajor finds the channels among the character devices of /proc/devices.
func parseMajor(devices []byte) (*int, error) {
	character := false
	for line := range strings.Lines(string(devices)) {
		words := strings.Fields(line)
		switch {
		case strings.HasSuffix(strings.TrimSpace(line), "devices:"):
			character = strings.HasPrefix(line, "Character")
		case character && len(words) == 2 && words[1] == channelDevice:
			major, err := strconv.Atoi(words[0])
			if err != nil || major < 0 || major > maxMajor {
				return nil, fmt.Errorf("line %q: want a number of 0 to %d and a name", strings.TrimSpace(line), maxMajor)
			}
			return &major, nil
		}
	}
	return nil, nil //nolint:nilnil // there is none, and that is no error
}

// countChannels counts the device files channel0, channel1 and so on.
func countChannels(dir string) (int, error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	count := 0
	for _, f := range files {
		if number, is := strings.CutPrefix(f.Name(), "channel"); is && isNumber(number) {
			count++
		}
	}
	return count, err
}

func isNumber(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}

// readHostService reports whether a process is in the control group, of version 2, of
// the machine's own nvidia-imex.service. The daemon of NVIDIA's DRA driver is in its
// pod's group.
func readHostService(cgroups string) (bool, error) {
	if info, err := os.Stat(filepath.Join(cgroups, "system.slice")); err != nil || !info.IsDir() {
		return false, fmt.Errorf("%s has no system.slice: the machine's control groups are not mounted there", cgroups)
	}
	events, err := os.ReadFile(filepath.Join(cgroups, hostService, "cgroup.events"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return bytes.Contains(events, []byte("populated 1")), err
}
