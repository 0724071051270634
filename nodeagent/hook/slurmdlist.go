package hook

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
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
	files := confFiles{folder: filepath.Dir(conf)}
	list, err := files.slurmdList(inv, h.env("SLURMD_NODENAME"), filepath.Base(conf))
	if err != nil {
		return nil, err
	}
	if devices, err = pick(list, places); err != nil {
		return nil, fmt.Errorf("%s: %w", files.path("gres.conf"), err)
	}
	if filepath.Base(files.folder) == configless {
		return devices, nil
	}
	if err := h.surelyLoaded(&files, inv, list, devices, places); err != nil {
		return nil, err
	}
	return devices, nil
}

// surelyLoaded returns an error if slurmd may have loaded another list than the one that is in the
// files now. A list that is sure is kept for the jobs that follow.
func (h *job) surelyLoaded(files *confFiles, inv *rundir.Inventory, list, devices []string, places []int) error {
	var start uint64
	if h.slurmdStart != nil {
		start = h.slurmdStart()
	}
	node := h.env("SLURMD_NODENAME")
	kept, _ := h.runDir.ReadSlurmdList(node) // one that cannot be read counts as none
	if kept != nil && (start == 0 || kept.Start != start || kept.BootID != h.boot) {
		kept = nil
	}
	if start != 0 && files.newest.Before(sinceBoot(start)) {
		if kept == nil || !slices.Equal(kept.Devices, list) {
			_ = h.runDir.WriteSlurmdList(rundir.SlurmdList{Node: node, BootID: h.boot, Start: start, Devices: list}) // without it nothing is known of a younger file
		}
		return nil
	}
	before, whose := []string(nil), "the list that the last job of this slurmd was given GPUs by"
	switch {
	case kept != nil:
		before = kept.Devices
	case inv != nil && !inv.Unordered:
		whose = "all GPUs of the machine in their order"
		for i := range inv.Entries {
			before = append(before, inv.Entries[i].Files())
		}
	}
	if old, err := pick(before, places); err == nil && slices.Equal(old, devices) {
		return nil
	}
	if start == 0 {
		return fmt.Errorf("%s may be younger than slurmd, whose start is not known, and differs from %s: slurmd may not have loaded it", files.youngest, whose)
	}
	return fmt.Errorf("%s is younger than slurmd and differs from %s: slurmd may not have loaded it; restart slurmd", files.youngest, whose)
}

// pick returns the devices of places.
func pick(list []string, places []int) (devices []string, err error) {
	for _, i := range places {
		if i >= len(list) {
			return nil, fmt.Errorf("SLURM_JOB_GPUS has place %d, and the node's lines give %d devices", i, len(list))
		}
		devices = append(devices, list[i])
	}
	return devices, nil
}

// confFiles reads files of Slurm's configuration.
type confFiles struct {
	folder   string
	newest   time.Time // of all files that were read
	youngest string
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
func (c *confFiles) slurmdList(inv *rundir.Inventory, node, slurmConf string) ([]string, error) {
	path, data, err := c.joined("gres.conf")
	if err != nil {
		return nil, err
	}
	lines, err := gres.OfNode(path, data, node)
	if err != nil {
		return nil, err
	}
	m := gres.Machine{
		Counted: func() ([]gres.GPUCount, error) {
			path, data, err := c.joined(slurmConf)
			if err != nil {
				return nil, err
			}
			return gres.CountedBy(path, data, node)
		},
		Detected: func(way string) ([]gres.Detected, error) { return detectedBy(inv, way) },
	}
	places, err := m.Places(lines)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	list := make([]string, len(places))
	for i, p := range places {
		list[i] = string(p)
	}
	return list, nil
}

// detectedBy returns the GPUs that slurmd finds by itself, as far as the inventory is sure to have
// all of them.
func detectedBy(inv *rundir.Inventory, way string) (found []gres.Detected, err error) {
	switch {
	case inv == nil:
		return nil, errors.New("there is no inventory of the machine's GPUs")
	case inv.Unordered || inv.EmptyMIG || slices.ContainsFunc(inv.Entries, func(e rundir.Entry) bool { return e.Lost }):
		return nil, errors.New("it is not known whether slurmd counts a GPU that is lost, or that has MIG on and no instance")
	}
	for i := range inv.Entries {
		e := &inv.Entries[i]
		if e.GPUInstanceID != nil && way != gres.AutoDetectNvidia {
			return nil, errors.New("the order of MIG instances is not known")
		}
		file := gres.Device(rundir.DeviceFile(e.Minor))
		if slices.ContainsFunc(found, func(d gres.Detected) bool { return d.File == file }) {
			continue // another instance of the GPU
		}
		product, _, _ := strings.Cut(e.Product, " MIG ")
		found = append(found, gres.Detected{File: file, Index: e.Index, Product: product})
	}
	return found, nil
}

// sinceBoot returns the time of a number of clock ticks since the boot.
func sinceBoot(ticks uint64) time.Time {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return time.Time{}
	}
	const tick = time.Second / 100 // the kernel's unit for programs, on every machine
	return time.Now().Add(time.Duration(ticks)*tick - time.Duration(now.Nano()))
}

// SlurmdStart returns when the slurmd began that runs this process, in clock ticks since the boot:
// its Prolog may be a script that calls the hook. With PrologFlags=RunInJob the parent is a
// slurmstepd that is no child of slurmd: then slurmd is the only one of its name, and older. It is
// 0 if it is not known which process is slurmd.
func SlurmdStart() uint64 {
	const generations = 16
	pid := strconv.Itoa(os.Getppid())
	for range generations {
		name, parent, start := processOf(pid)
		switch {
		case isSlurmd(name):
			return start
		case name == "slurmstepd":
			return onlySlurmd(start)
		case parent == "" || parent == "0":
			return 0
		}
		pid = parent
	}
	return 0
}

func isSlurmd(name string) bool { return name == "slurmd" || name == "slurmd-wlm" } // the second is Debian's

// processOf returns a process's name, parent and start; no name if it has ended.
func processOf(pid string) (name, parent string, start uint64) {
	stat, _ := atomicfile.Read("/proc/" + pid + "/stat")
	_, after, _ := strings.Cut(string(stat), "(")
	end := strings.LastIndexByte(after, ')') // a name may have brackets
	if end < 0 {
		return "", "", 0
	}
	fields := strings.Fields(after[end+1:])
	if len(fields) < 2 {
		return "", "", 0
	}
	return after[:end], fields[1], rundir.ProcessStart(stat)
}

// onlySlurmd returns when slurmd began, if there is only one and it is older than this step. A younger
// slurmd may have another list than the one that gave the step its GPUs.
func onlySlurmd(step uint64) (start uint64) {
	folder, err := os.Open("/proc")
	if err != nil {
		return 0
	}
	defer folder.Close()
	pids, err := folder.Readdirnames(-1)
	if err != nil {
		return 0
	}
	for _, pid := range pids {
		if pid[0] < '1' || pid[0] > '9' {
			continue
		}
		name, parent, began := processOf(pid)
		if !isSlurmd(name) {
			continue
		}
		if parentName, _, _ := processOf(parent); isSlurmd(parentName) {
			continue // a child of slurmd that is about to become another program
		}
		if start != 0 {
			return 0
		}
		start = began
	}
	if start > step {
		return 0
	}
	return start
}

// devicesInTime does not wait longer for slow files than a part of the call's time.
func (h *job) devicesInTime(inv *rundir.Inventory, places []int) ([]string, error) {
	if len(places) == 0 {
		return nil, nil
	}
	type result struct {
		devices []string
		err     error
	}
	done := make(chan result, 1)
	go func() {
		devices, err := h.placedDevices(inv, places)
		done <- result{devices, err}
	}()
	limit := max(h.left()/2, confWait)
	select {
	case r := <-done:
		return r.devices, r.err
	case <-time.After(limit):
		return nil, fmt.Errorf("the files beside %s could not be read within %s", h.env("SLURM_CONF"), limit.Round(time.Millisecond))
	}
}
