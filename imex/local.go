package imex

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

// Where a machine's IMEX shows, below its root.
const (
	devicesFile   = "proc/devices"
	channelDevice = "nvidia-caps-imex-channels"
	channelDir    = "dev/nvidia-caps-imex-channels"
	hostService   = "system.slice/nvidia-imex.service"
)

// unreadable is the reason of the problems that [Local.Read] finds.
const unreadable = "ImexUnreadable"

// LocalOptions say which machine a [Local] reads and how long it may take.
type LocalOptions struct {
	// Root is the folder in which the machine's proc, dev, etc, run and var are.
	Root string
	// Cgroups is where the machine's control groups are mounted; empty for
	// sys/fs/cgroup of Root.
	Cgroups string
	// Patience is how long a reading waits for nvidia-imex-ctl. What that says later
	// is in the next reading. Zero is for a single reading, which waits until the
	// program ends or is ended.
	Patience time.Duration
}

// Local reads what a machine itself says of IMEX: the channels, the daemon and what
// may be in its way. It is for one goroutine.
type Local struct {
	root, cgroups string
	ctl           ctl
}

// NewLocal returns a reader of the machine. It touches nothing yet.
func NewLocal(o LocalOptions) *Local {
	l := &Local{root: o.Root, cgroups: o.Cgroups, ctl: ctl{patience: o.Patience, timeout: askTimeout}}
	if l.cgroups == "" {
		l.cgroups = filepath.Join(o.Root, "sys/fs/cgroup")
	}
	if l.ctl.patience == 0 {
		l.ctl.patience = askTimeout + dieWithin
	}
	return l
}

// Read reads the machine. What could not be read is absent, with a problem; a state
// of the daemon is kept over one question without an answer. Drivers have channels on
// machines that need none, too: only where a GPU is in a clique a daemon is looked
// for and asked, and a driver without channels gives facts without a major number and
// not none at all.
func (l *Local) Read(inClique bool) (*topology.IMEX, []topology.Problem) {
	var p problems
	facts := l.readFiles(inClique, &p)
	if facts == nil || facts.ChannelMajor == nil || !inClique {
		l.ctl.forget()
		return facts, p
	}
	l.readStates(facts, &p)
	return facts, p
}

// readFiles reads what the machine's files say.
func (l *Local) readFiles(inClique bool, p *problems) *topology.IMEX {
	major, err := readMajor(filepath.Join(l.root, devicesFile))
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
	if facts.Channels, err = countChannels(filepath.Join(l.root, channelDir)); err != nil {
		p.add("channels", err)
	}
	if !inClique {
		return facts
	}
	if facts.HostService, err = readHostService(l.cgroups); err != nil {
		p.add("the machine's nvidia-imex.service", err)
	}
	return facts
}

// readStates adds what nvidia-imex-ctl says, where there is a daemon to ask.
func (l *Local) readStates(facts *topology.IMEX, p *problems) {
	q, err := l.findQuestion(facts.HostService)
	if err != nil || q == nil {
		l.ctl.forget()
		p.add("daemon's state", err)
		return
	}
	l.ctl.ask(*q)
	facts.DaemonState, facts.DomainState = l.ctl.daemon.state, l.ctl.domain.state
	p.add("daemon's state", l.ctl.daemon.err)
	p.add("domain's state", l.ctl.domain.err)
}

// problems are reasons why facts could not be read.
type problems []topology.Problem

// add adds the reason why a fact could not be read, where there is one.
func (p *problems) add(fact string, err error) {
	if err != nil {
		*p = append(*p, topology.Problem{Reason: unreadable, Message: fmt.Sprintf("IMEX: %s: %v", fact, err)})
	}
}

// readMajor reads the channels' device major, nil where there is none.
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
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer d.Close()
	count := 0
	for {
		names, err := d.Readdirnames(256) // of some 2048
		for _, name := range names {
			if number, is := strings.CutPrefix(name, "channel"); is && isNumber(number) {
				count++
			}
		}
		if errors.Is(err, io.EOF) {
			return count, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

func isNumber(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}

// readHostService reports whether a process is in the control group of the machine's
// own nvidia-imex.service. The daemon of NVIDIA's DRA driver is in its pod's.
func readHostService(cgroups string) (bool, error) {
	seen := false
	// Version 2, version 1, and version 2 beside version 1.
	for _, hierarchy := range []string{"", "systemd", "unified"} {
		dir := filepath.Join(cgroups, hierarchy)
		if info, err := os.Stat(filepath.Join(dir, "system.slice")); err != nil || !info.IsDir() {
			continue
		}
		seen = true
		lives, err := inhabited(filepath.Join(dir, hostService))
		if lives || err != nil {
			return lives, err
		}
	}
	if !seen {
		return false, fmt.Errorf("%s has no system.slice: the machine's control groups are not mounted there", cgroups)
	}
	return false, nil
}

// inhabited reports whether a control group is there and has a process.
func inhabited(group string) (bool, error) {
	events, err := os.ReadFile(filepath.Join(group, "cgroup.events")) // of version 2
	if err == nil {
		return bytes.Contains(events, []byte("populated 1")), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	members, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(bytes.TrimSpace(members)) > 0, err
}
