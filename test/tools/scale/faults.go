package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/topology"
)

// replica is a publisher behind a front of its own. It is started again when it ends, as a
// kubelet does.
type replica struct {
	running atomic.Pointer[publisher]
	stopped atomic.Bool
	front   *front
}

// trial is a cluster with two replicas to which faults happen.
type trial struct {
	*bencher
	replicas []*replica // the first one leads at the start
	moved    int        // how many machines
	saved    string     // etcd's data
	then     map[*machine]topology.Clique
}

// fault is something that goes wrong.
type fault struct {
	name string
	do   func(context.Context) error
}

// letHappen lets all faults happen, one after another. After each a node moves, and all has to
// become what the nodes report.
func (b *bencher) letHappen(ctx context.Context) error {
	t := &trial{bencher: b}
	b.publisher.Stop()
	defer t.close()
	for i := range 2 {
		if err := t.add(ctx, i); err != nil {
			return err
		}
	}
	if err := t.moves(ctx, "two publishers start"); err != nil {
		return err
	}
	for _, f := range []fault{
		{"etcd is saved", t.save},
		{"the API server is killed and comes back", t.serverKilled},
		{"the watch has expired", t.watchExpired},
		{"the leader is cut off", t.leaderCut},
		{"the leader sleeps past its Lease", t.leaderSleeps},
		{"etcd is restored", t.restored},
	} {
		if err := t.happens(ctx, f.name, f.do); err != nil {
			return err
		}
	}
	return nil
}

// happens lets a fault happen, and waits until all is as the nodes report.
func (t *trial) happens(ctx context.Context, name string, do func(context.Context) error) error {
	count := t.revisions.count()
	if err := do(ctx); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	began := time.Now()
	if _, err := t.revisions.until(ctx, t.joined()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(t.stdout, "fault: %s: right %s later, %d files on the way, none wrong\n", name, time.Since(began).Round(100*time.Millisecond), t.revisions.count()-count)
	return t.moves(ctx, name)
}

// moves moves a node, which has to be published. A fault must not leave a publisher that does
// nothing more.
func (t *trial) moves(ctx context.Context, after string) error {
	if err := t.move(ctx); err != nil {
		return fmt.Errorf("a move after %q: %w", after, err)
	}
	if _, err := t.revisions.until(ctx, t.joined()); err != nil {
		return fmt.Errorf("a move after %q: %w", after, err)
	}
	return nil
}

// move has a machine report the next rack. It is another machine each time, because the
// publisher waits longer for one that moves often.
func (t *trial) move(ctx context.Context) error {
	t.moved++
	m := t.present()[t.moved*(rackNodes+1)%len(t.present())]
	return m.say(ctx, t.elsewhere(m))
}

// add starts a publisher behind a front.
func (t *trial) add(ctx context.Context, n int) error {
	f, err := newFront(t.kubeconfig)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("replica-%d", n)
	path := t.path(name + ".kubeconfig")
	if err := f.kubeconfig(path); err != nil {
		return err
	}
	r := &replica{front: f}
	start := func() error {
		p, err := startPublisher(t.program, t.path("quoin.yaml"), path, t.path(name+".log"))
		if err == nil {
			r.running.Store(p)
		}
		return err
	}
	if err := start(); err != nil {
		return err
	}
	t.replicas = append(t.replicas, r)
	go func() {
		for !r.stopped.Load() {
			<-r.running.Load().Ended()
			time.Sleep(startPause)
			if r.stopped.Load() || start() != nil { // then nobody leads, which the trial notices
				return
			}
		}
	}()
	if n > 0 {
		return nil
	}
	return t.leads(ctx, r)
}

// startPause is between the end of a publisher and its next start.
const startPause = time.Second

// series returns a value of the publisher's /metrics.
func (r *replica) series(ctx context.Context, name string) (float64, error) {
	return r.running.Load().series(ctx, name)
}

// leads waits until a replica leads.
func (t *trial) leads(ctx context.Context, r *replica) error {
	return await.NoError(ctx, "a publisher leads", func(ctx context.Context) error {
		leads, err := r.series(ctx, "quoin_publisher_leader")
		if err == nil && leads != 1 {
			err = errors.New("it does not lead")
		}
		return err
	})
}

// leader returns the replica that leads now.
func (t *trial) leader(ctx context.Context) (leader, other *replica, err error) {
	err = await.NoError(ctx, "a publisher leads", func(ctx context.Context) error {
		for i, r := range t.replicas {
			if leads, err := r.series(ctx, "quoin_publisher_leader"); err == nil && leads == 1 {
				leader, other = r, t.replicas[1-i]
				return nil
			}
		}
		return errors.New("none leads")
	})
	return leader, other, err
}

func (t *trial) close() {
	for _, r := range t.replicas {
		r.stopped.Store(true)
		r.running.Load().Stop()
		r.front.close()
	}
}

// save keeps etcd's data and what the machines report now.
func (t *trial) save(ctx context.Context) error {
	t.saved, t.then = t.path("saved"), map[*machine]topology.Clique{}
	for _, m := range t.joined() {
		t.then[m] = m.now
	}
	return t.cluster.Save(ctx, t.saved)
}

// outage is how long a fault lasts that a publisher has to notice.
const outage = 5 * time.Second

func (t *trial) serverKilled(ctx context.Context) error {
	t.cluster.StopServer()
	time.Sleep(outage)
	return t.cluster.StartServer(ctx)
}

// watchExpired changes things while all publishers are cut off, and has the API server
// forget how things were.
func (t *trial) watchExpired(ctx context.Context) error {
	for _, r := range t.replicas {
		r.front.leave()
	}
	if err := t.move(ctx); err != nil {
		return err
	}
	if err := t.cluster.Compact(ctx); err != nil {
		return err
	}
	for _, r := range t.replicas {
		r.front.join()
	}
	return nil
}

// leaderCut cuts the leader off while a node moves, until the other one has published.
func (t *trial) leaderCut(ctx context.Context) error {
	leader, other, err := t.leader(ctx)
	if err != nil {
		return err
	}
	leader.front.leave()
	defer leader.front.join()
	if err := t.move(ctx); err != nil {
		return err
	}
	if err := t.leads(ctx, other); err != nil {
		return err
	}
	_, err = t.revisions.until(ctx, t.joined())
	return err
}

// leaderSleeps stops the leader while a node moves and comes back, until the other one leads.
// When the leader wakes, it still believes that it leads.
func (t *trial) leaderSleeps(ctx context.Context) error {
	leader, other, err := t.leader(ctx)
	if err != nil {
		return err
	}
	if err := t.move(ctx); err != nil {
		return err
	}
	asleep := leader.running.Load()
	if err := asleep.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop the leader: %w", err)
	}
	err = t.leads(ctx, other)
	if err == nil {
		_, err = t.revisions.until(ctx, t.joined())
	}
	if again := asleep.Signal(syscall.SIGCONT); err == nil {
		err = again
	}
	return err
}

// restored adds a rack, goes back to the saved data, in which the rack is not, and restarts the
// publishers. Then the agents report again, and the rack joins again.
func (t *trial) restored(ctx context.Context) error {
	rack := t.site.machines[len(t.present()):]
	joined := len(t.then) == len(t.present())
	if joined {
		if err := each(ctx, rack, t.site.join); err != nil {
			return err
		}
	}
	if err := t.move(ctx); err != nil {
		return err
	}
	if _, err := t.revisions.until(ctx, t.joined()); err != nil {
		return err
	}
	again := map[*machine]*topology.Node{} // what the agents know
	for m, c := range t.then {
		if m.now != c && m.now == m.report.Domain.Clique {
			again[m] = m.report
		} else if m.now != c {
			again[m] = t.elsewhere(m)
		}
	}
	if err := t.cluster.Restore(ctx, t.saved); err != nil {
		return err
	}
	for _, r := range t.replicas {
		r.running.Load().Stop()
	}
	t.revisions.watch(ctx)
	for m, c := range t.then {
		m.now = c
	}
	if joined {
		for _, m := range rack {
			m.agent = nil
		}
	}
	began := time.Now()
	if _, err := t.revisions.until(ctx, t.joined()); err != nil {
		return fmt.Errorf("as it was saved: %w", err)
	}
	fmt.Fprintf(t.stdout, "as it was saved %s after the restore; %d agents report again\n", time.Since(began).Round(100*time.Millisecond), len(again))
	for m, report := range again {
		if err := m.say(ctx, report); err != nil {
			return err
		}
	}
	if !joined {
		return nil
	}
	return each(ctx, rack, t.site.join)
}
