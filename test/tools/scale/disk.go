package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

// The size of the folder that fills up, in KiB.
const diskSize = 4 << 10

// diskFull runs a publisher on a directory whose disk is full while a node moves, and then no
// longer is. The reports are on another disk.
func (b *bencher) diskFull(ctx context.Context) error {
	store, reports := b.path("store"), b.path("reports")
	for _, dir := range []string{store, reports} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make a folder: %w", err)
		}
	}
	if err := syscall.Mount("tmpfs", store, "tmpfs", 0, fmt.Sprintf("size=%dk", diskSize)); err != nil {
		return fmt.Errorf("make a small disk: %w", err)
	}
	defer func() { _ = syscall.Unmount(store, syscall.MNT_DETACH) }() // it goes with its folder
	if err := os.Symlink(reports, filepath.Join(store, "reports")); err != nil {
		return fmt.Errorf("make a small disk: %w", err)
	}
	racks := b.present()[:2*rackNodes]
	for _, m := range racks {
		if err := putReport(reports, m.report); err != nil {
			return err
		}
	}
	log, err := os.Create(b.path("disk.log"))
	if err != nil {
		return fmt.Errorf("start publisher: %w", err)
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, b.program, "publisher", "--times", confirm, "--config", b.path("quoin.yaml"), "--store", store, "--listen", "")
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start publisher: %w", err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}()
	if err := b.stored(ctx, store, nil, racks); err != nil {
		return err
	}
	if err := fill(filepath.Join(store, "filler")); err != nil {
		return err
	}
	there := racks[rackNodes].report.Domain.Clique
	moved := &machine{name: racks[1].name, now: there}
	racks[1].mu.Lock()
	racks[1].said[there] = true
	racks[1].mu.Unlock()
	if err := putReport(reports, b.elsewhere(racks[1])); err != nil {
		return err
	}
	time.Sleep(outage) // what is wanted is that nothing happens
	if err := b.stored(ctx, store, nil, racks); err != nil {
		return fmt.Errorf("while the disk is full: %w", err)
	}
	if err := os.Remove(filepath.Join(store, "filler")); err != nil {
		return fmt.Errorf("empty the disk: %w", err)
	}
	began := time.Now()
	if err := b.stored(ctx, store, moved, racks); err != nil {
		return fmt.Errorf("when the disk is no longer full: %w", err)
	}
	fmt.Fprintf(b.stdout, "fault: the disk of a directory store is full: the files stay; right %s after there is room\n", time.Since(began).Round(100*time.Millisecond))
	return nil
}

// putReport replaces a report as an agent does.
func putReport(dir string, n *topology.Node) error {
	text, err := topology.EncodeReport(n)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, n.Name+".json")
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return os.Rename(path+".new", path)
}

// fill writes a file until the disk is full.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("fill the disk: %w", err)
	}
	defer f.Close()
	for block := make([]byte, 4<<10); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("fill the disk: %w", err)
	}
	return nil
}

// stored waits until the published files say what these machines report. moved is one of
// them that has moved, or nil.
func (b *bencher) stored(ctx context.Context, store string, moved *machine, machines []*machine) error {
	var want []*machine
	for _, m := range machines {
		one := &machine{name: m.name, now: m.report.Domain.Clique}
		if moved != nil && moved.name == m.name {
			one = moved
		}
		want = append(want, one)
	}
	var last error
	for end := time.Now().Add(waitLimit); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(store, "published", namespace, configMap, "topology.yaml"))
		if last = err; err != nil {
			continue
		}
		r := &revision{files: map[string]string{"topology.yaml": string(text)}}
		if err := b.site.check(r); err != nil {
			return err
		}
		if last = r.differs(want); last == nil {
			return nil
		}
	}
	return errors.Join(fmt.Errorf("not within %s", waitLimit), last, ctx.Err())
}
