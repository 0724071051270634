package hook

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/nodeagent/process"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
)

// SLURM_JOB_GPUS counts in slurmd's own list, which slurmd made of gres.conf when it started. This
// file finds that list: by the gres.conf beside slurm.conf, as long as slurmd is sure to have
// loaded it. No label is better than the label of another job.

// configless is the folder in which a slurmd without files of its own keeps what slurmctld sent.
// slurmd has loaded what is in it, whatever its age.
const configless = "conf-cache"

// placedDevices returns the device files of the job's places in slurmd's list.
func (h *job) placedDevices(inv *rundir.Inventory, places []int) (devices []string, err error) {
	conf := h.env("SLURM_CONF")
	if conf == "" {
		return nil, errors.New("SLURM_CONF is not set, so slurmd's gres.conf is not known")
	}
	files := confFiles{folder: filepath.Dir(conf), slurmConf: filepath.Base(conf), node: h.env("SLURMD_NODENAME")}
	list, err := files.slurmdList(inv)
	if err != nil {
		return nil, err
	}
	for _, i := range places {
		if i >= len(list) {
			return nil, fmt.Errorf("%s: SLURM_JOB_GPUS has place %d, and the node's lines give %d devices", files.path("gres.conf"), i, len(list))
		}
		devices = append(devices, string(list[i]))
	}
	if filepath.Base(files.folder) == configless {
		return devices, nil
	}
	if err := h.surelyLoaded(&files, inv, list); err != nil {
		return nil, err
	}
	return devices, nil
}

// surelyLoaded returns an error if slurmd may have loaded another list than the one that is in the
// files now. slurmd has loaded files that are older than itself. A younger list counts if it has all
// GPUs of the machine in their order, and slurmd has loaded a slurm.conf that counts all of them:
// slurmctld drains a node whose slurmd has fewer.
func (h *job) surelyLoaded(files *confFiles, inv *rundir.Inventory, list []gres.Device) error {
	start := uint64(0)
	if h.slurmdStart != nil {
		start = h.slurmdStart()
	}
	older := func(c *confFiles) bool { return c.newest.Before(sinceBoot(start)) }
	if start != 0 && older(files) {
		return nil
	}
	conf := confFiles{folder: files.folder, slurmConf: files.slurmConf, node: files.node}
	counted, err := conf.counted()
	if err == nil && inv != nil && !inv.Unordered && slices.Equal(list, devicesOf(inv)) && gres.Total(counted) == uint64(len(list)) && (start == 0 || older(&conf)) {
		return nil
	}
	if start == 0 {
		return fmt.Errorf("%s may be younger than slurmd, whose start is not known: it counts only if it lists all GPUs of the machine in their order and Gres= of slurm.conf counts all", files.youngest)
	}
	return fmt.Errorf("%s is younger than slurmd, which may have loaded another list: restart slurmd", files.youngest)
}

// devicesOf returns all devices of the inventory.
func devicesOf(inv *rundir.Inventory) (all []gres.Device) {
	for i := range inv.Entries {
		all = append(all, gres.Device(inv.Entries[i].Files()))
	}
	return all
}

// confFiles reads files of Slurm's configuration.
type confFiles struct {
	folder, slurmConf string
	node              string    // the node whose lines count
	newest            time.Time // of all files that were read
	youngest          string
}

func (c *confFiles) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(c.folder, name)
}

// open is a syntax.Include. Slurm takes names to be beside slurm.conf.
func (c *confFiles) open(name string) (path string, data []byte, err error) {
	path = c.path(name)
	data, info, err := atomicfile.ReadInfo(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s: %w", path, syntax.ErrNoFile)
		}
		return path, nil, err
	}
	changed := info.ModTime()
	if s, ok := info.Sys().(*syscall.Stat_t); ok { // an old file that was moved here keeps its time
		if moved := time.Unix(s.Ctim.Unix()); moved.After(changed) {
			changed = moved
		}
	}
	if changed.After(c.newest) {
		c.newest, c.youngest = changed, path
	}
	return path, data, nil
}

// joined reads a file with the files that it includes.
func (c *confFiles) joined(name string) (path string, data []byte, err error) {
	path, data, err = c.open(name)
	if err != nil {
		return path, nil, err
	}
	data, in := syntax.Join(path, data, c.open)
	if len(in.Unread) > 0 {
		u := in.Unread[0]
		return path, nil, fmt.Errorf("%s:%d: %s", u.File, u.Line, u.Message)
	}
	return path, data, nil
}

// slurmdList returns slurmd's list by the files as they are now.
func (c *confFiles) slurmdList(inv *rundir.Inventory) ([]gres.Device, error) {
	path, data, err := c.joined("gres.conf")
	if err != nil {
		return nil, err
	}
	lines, err := gres.OfNode(path, data, c.node)
	if err != nil {
		return nil, err
	}
	m := gres.Machine{Counted: c.counted, Detected: func() ([]gres.Device, error) { return detectedBy(inv) }}
	list, err := m.Places(lines)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// counted returns the GPUs that slurm.conf counts for the node.
func (c *confFiles) counted() ([]gres.GPUCount, error) {
	path, data, err := c.joined(c.slurmConf)
	if err != nil {
		return nil, err
	}
	return gres.CountedBy(path, data, c.node)
}

// detectedBy returns the GPUs that slurmd finds by itself. The order is known if all are alike, and
// their device files are in NVML's order.
func detectedBy(inv *rundir.Inventory) ([]gres.Device, error) {
	switch {
	case inv == nil:
		return nil, errors.New("there is no inventory of the machine's GPUs")
	case inv.Unordered || inv.EmptyMIG:
		return nil, errors.New("it is not known whether slurmd counts a GPU that cannot be read, or that has MIG on and no instance")
	}
	for i := range inv.Entries {
		e, next := &inv.Entries[i], &inv.Entries[min(i+1, len(inv.Entries)-1)]
		switch {
		case e.Lost:
			return nil, errors.New("it is not known whether slurmd counts a GPU that is lost")
		case e.GPUInstanceID != nil || e.Product != next.Product || e.Minor > next.Minor || e.Index > next.Index:
			return nil, errors.New("the order of GPUs is not known, because they differ, have MIG on, or are in another order for NVML")
		}
	}
	return devicesOf(inv), nil
}

// sinceBoot returns the time of a number of clock ticks since the boot.
func sinceBoot(ticks uint64) time.Time {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(ticks)*process.Tick - time.Duration(now.Nano()))
}

// SlurmdStart returns when the slurmd began that runs this process, in clock ticks since the boot:
// its Prolog may be a script that calls the hook. SlurmdStart returns 0 if it is not known which process
// is slurmd: with PrologFlags=RunInJob the parent is a slurmstepd that is no child of slurmd.
func SlurmdStart() uint64 {
	const generations = 16
	pid := strconv.Itoa(os.Getppid())
	for range generations {
		is := process.Read("/proc", pid)
		switch {
		case is.IsSlurmd():
			return is.Start
		case is.Name == "slurmstepd", is.Parent == "", is.Parent == "0":
			return 0
		}
		pid = is.Parent
	}
	return 0
}

// confWait is the least time that the reading of gres.conf and slurm.conf has, which may be on a
// shared file system.
const confWait = 100 * time.Millisecond

// devicesInTime does not wait longer for slow files than a part of the call's time.
func (h *job) devicesInTime(inv *rundir.Inventory, places []int) ([]string, error) {
	if len(places) == 0 {
		return nil, nil
	}
	var devices []string
	var err error
	limit := max(h.left()/2, confWait)
	if !within(limit, func() { devices, err = h.placedDevices(inv, places) }) {
		return nil, fmt.Errorf("the files beside %s could not be read within %s", h.env("SLURM_CONF"), limit.Round(time.Millisecond))
	}
	return devices, err
}
