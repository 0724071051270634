package fabric

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// XidClass says what an Xid asks of people.
type XidClass string

// The classes. [XidReset] and [XidCritical] are critical: the GPU works again only after
// somebody did something.
const (
	// XidIgnore asks for nothing.
	XidIgnore XidClass = "ignore"
	// XidApplication was caused by a program, or ended one. The program can be started again.
	XidApplication XidClass = "application"
	// XidLook may be harmless or not. The number alone does not say which.
	XidLook XidClass = "look"
	// XidReset asks for a reset of the GPU.
	XidReset XidClass = "reset"
	// XidCritical asks for another action, such as a restart of the machine.
	XidCritical XidClass = "critical"
)

// Critical reports whether somebody has to act before the GPU works again.
func (c XidClass) Critical() bool { return c == XidReset || c == XidCritical }

// Xid is what is known of an Xid by its number. NVML tells no more than the number.
type Xid struct {
	Code  int
	Class XidClass
	// Name says in a few words what happened. It is empty for a number that is not in the table.
	Name string
	// Action says what to do. It is empty for the class [XidIgnore].
	Action string
}

// What to do for most Xids of a class.
const (
	restartJob = "start the job again"
	lookUp     = "look at dmesg and NVIDIA's Xid catalogue"
	resetGPU   = "drain the node and reset the GPU"

	restartMachine = "drain the node and restart the machine"
)

// xids are the Xids of NVIDIA's Xid catalogue as of 2025-10-29, compared with later notes in
// November 2026. The class is the catalogue's immediate action. If that is a workflow over
// several messages of the kernel log, the class is [XidLook], except for memory errors.
var xids = [...]struct {
	first, last int
	class       XidClass
	name        string
	action      string // empty for that of most Xids of the class
}{
	{8, 8, XidApplication, "GPU stopped processing", ""},
	{11, 11, XidApplication, "invalid commands sent to the GPU", ""},
	{13, 13, XidApplication, "graphics engine exception", ""},
	{14, 14, XidIgnore, "unused", ""},
	{25, 25, XidApplication, "invalid commands sent to the GPU", ""},
	{31, 31, XidApplication, "GPU memory page fault", ""},
	{32, 32, XidApplication, "invalid commands sent to the GPU", ""},
	{37, 38, XidIgnore, "driver firmware error", ""},
	{39, 41, XidApplication, "copy engine exception", ""},
	{43, 43, XidIgnore, "GPU stopped processing", ""},
	{44, 44, XidIgnore, "graphics engine fault during a context switch", ""},
	{XidCleanup, XidCleanup, XidLook, "cleanup of a program, and no error before it", ""},
	{46, 46, XidReset, "GPU stopped processing", ""},
	{48, 48, XidCritical, "double bit ECC error", resetGPU + "; if it comes again, have the GPU exchanged"},
	{54, 54, XidCritical, "auxiliary power is not connected", "drain the node and check the power cables of the GPU"},
	{60, 60, XidApplication, "video processor exception", ""},
	{62, 62, XidReset, "micro-controller of the GPU halted", ""},
	{63, 63, XidIgnore, "GPU memory row remapped", ""},
	{64, 64, XidReset, "GPU memory row could not be remapped", ""},
	{66, 67, XidIgnore, "illegal access by the driver", ""},
	{68, 68, XidApplication, "video decoder exception", ""},
	{69, 69, XidApplication, "graphics engine class error", ""},
	{70, 72, XidApplication, "copy engine exception", ""},
	{74, 74, XidLook, "NVLink error", ""},
	{75, 77, XidApplication, "copy engine exception", ""},
	{78, 78, XidLook, "vGPU did not start", "update the driver of host and virtual machine"},
	{79, 79, XidCritical, "GPU has fallen off the bus", restartMachine},
	{80, 80, XidApplication, "corrupted data sent to the GPU", ""},
	{82, 82, XidApplication, "JPEG decoder exception", ""},
	{83, 84, XidApplication, "video decoder exception", ""},
	{85, 85, XidApplication, "copy engine exception", ""},
	{86, 86, XidApplication, "optical flow exception", ""},
	{88, 89, XidApplication, "video decoder exception", ""},
	{92, 92, XidIgnore, "high rate of corrected ECC errors", ""},
	{93, 93, XidIgnore, "many writes to the InfoROM", ""},
	{94, 94, XidApplication, "contained memory error", ""},
	{95, 95, XidReset, "uncontained memory error", ""},
	{96, 98, XidApplication, "video decoder exception", ""},
	{99, 105, XidApplication, "JPEG decoder exception", ""},
	{106, 107, XidIgnore, "test message", ""},
	{108, 108, XidIgnore, "NVLink: translation error at the other end", ""},
	{109, 109, XidReset, "context switch timeout", ""},
	{110, 110, XidReset, "security fault", ""},
	{119, 119, XidReset, "GSP does not answer", ""},
	{120, 120, XidReset, "GSP error", ""},
	{121, 121, XidIgnore, "C2C link error", ""},
	{126, 135, XidApplication, "copy engine exception", ""},
	{136, 136, XidReset, "link training failed", ""},
	{137, 137, XidIgnore, "NVLink privilege error", ""},
	{139, 139, XidApplication, "optical flow exception", ""},
	{140, 140, XidReset, "ECC error without recovery", ""},
	{141, 141, XidIgnore, "CUDA fast path error", ""},
	{142, 142, XidCritical, "video encoder exception", "ask NVIDIA's support"},
	{143, 143, XidReset, "GPU could not be initialised", ""},
	{144, 150, XidLook, "NVLink error", ""}, // by the sub-code in the kernel log; many are not fatal
	{151, 151, XidCritical, "key rotation error", restartMachine + ", or its virtual machine"},
	{152, 153, XidIgnore, "deep learning accelerator error", ""},
	{154, 154, XidIgnore, "the recovery action changed", ""}, // the action itself is GPU.Recovery
	{155, 155, XidReset, "NVLink error that software defines", ""},
	{156, 156, XidReset, "a part of the GPU was retired", ""},
	{157, 157, XidIgnore, "a part of the GPU could not be retired", ""},
	{158, 158, XidReset, "fatal timeout", ""},
	{159, 159, XidLook, "error on the link between CPU and GPU", ""},
	{160, 160, XidIgnore, "a memory channel was retired", ""},
	{161, 161, XidIgnore, "a memory channel could not be retired", ""},
	{162, 165, XidIgnore, "power smoothing changed", ""},
}

// XidCleanup is the Xid of a program that is cleaned up after an error. If its GPU has
// another Xid, that one says what happened, and this one asks for nothing.
const XidCleanup = 45

// XidOf returns what is known of an Xid. A number that is not in NVIDIA's catalogue, or that
// the catalogue says nothing about, has the class [XidLook].
func XidOf(code int) Xid {
	x := Xid{Code: code, Class: XidLook}
	for i := range xids {
		if row := &xids[i]; row.first <= code && code <= row.last {
			x.Class, x.Name, x.Action = row.class, row.name, row.action
		}
	}
	if x.Action == "" {
		x.Action = map[XidClass]string{XidApplication: restartJob, XidLook: lookUp, XidReset: resetGPU}[x.Class]
	}
	return x
}

// NeedsRepair reports whether a problem says that somebody has to reset or repair a GPU.
func NeedsRepair(p topology.Finding) bool {
	return p.Reason == topology.ReasonXidCritical || p.Reason == topology.ReasonRecoveryNeeded
}

// RecoveryNone is NVML's word that nothing has to be done.
const RecoveryNone = "none"

// recoveries are the recovery actions, by NVML's number (nvmlDeviceGpuRecoveryAction_t). A
// change of the action is Xid 154.
var recoveries = [...]struct {
	word   string
	needed bool // the GPU does not work before
	action string
}{
	{word: RecoveryNone},
	{"resetGPU", true, resetGPU},
	{"rebootNode", true, restartMachine},
	{"drainP2P", false, "end the programs that use the memory of several GPUs"},
	{"drainP2PAndResetGPU", true, "end the programs that use the memory of several GPUs, and reset the GPU"},
	{"recoverIMEXDomain", false, "end the jobs of the IMEX domain, and restart its daemons"},
	{"resetBus", true, "drain the node and reset the PCIe bus of the GPU"},
	{"rebootSystem", true, restartMachine},
}

// RecoveryOf returns the word for NVML's number of a recovery action. The word for an unknown
// number is the number.
func RecoveryOf(number uint64) string {
	if number < uint64(len(recoveries)) {
		return recoveries[number].word
	}
	return fmt.Sprint(number)
}

// recoveryProblem returns the problem of a GPU for which NVML asks for something.
func recoveryProblem(g *topology.GPU) (p topology.Finding, asks bool) {
	if g.Recovery == "" || g.Recovery == RecoveryNone {
		return p, false
	}
	action := lookUp
	p.Reason = topology.ReasonRecoveryAdvised
	for _, r := range recoveries {
		if r.word != g.Recovery {
			continue
		}
		if action = r.action; r.needed {
			p.Reason = topology.ReasonRecoveryNeeded
		}
	}
	p.Message = fmt.Sprintf("GPU %s has NVML's recovery action %s: %s", g.UUID, g.Recovery, action)
	return p, true
}

// Xids remember the Xids of a machine's GPUs by UUID, those of lost GPUs too. The zero value
// remembers none.
type Xids struct {
	codes map[string][]int
	// broken are the GPUs that needed a recovery when NVML last spoke of it.
	broken map[string]bool
}

// Add remembers codes of a GPU.
func (x *Xids) Add(uuid string, codes ...int) {
	if len(codes) == 0 {
		return
	}
	if x.codes == nil {
		x.codes = map[string][]int{}
	}
	all := append(slices.Clone(x.codes[uuid]), codes...)
	slices.Sort(all)
	x.codes[uuid] = slices.Compact(all)
}

// Take remembers the Xids of a report. Before that it forgets those of each GPU that was reset.
// One sign is sure: NVML said that the GPU needs a recovery, and now says that nothing has to be
// done. Without that sign nothing is forgotten.
func (x *Xids) Take(n *topology.Node) {
	if x.broken == nil {
		x.broken = map[string]bool{}
	}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if p, _ := recoveryProblem(g); p.Reason == topology.ReasonRecoveryNeeded {
			x.broken[g.UUID] = true
		} else if g.Recovery == RecoveryNone && x.broken[g.UUID] {
			delete(x.codes, g.UUID)
			delete(x.broken, g.UUID)
		}
		x.Add(g.UUID, g.Xids...)
	}
	for _, p := range n.Problems {
		if uuid, code, is := readXid(p); is && !n.Has(uuid) {
			x.Add(uuid, code)
		}
	}
}

// Recall remembers the Xids that were stored earlier in this boot, unless the GPU was reset
// since. now is the report of this moment.
func (x *Xids) Recall(stored, now *topology.Node) {
	x.Take(now)
	var old Xids
	old.Take(stored)
	old.Take(now)
	for uuid, codes := range old.codes {
		x.Add(uuid, codes...)
	}
	for uuid := range old.broken {
		x.broken[uuid] = true
	}
}

// Show adds the remembered Xids to a report: to its GPUs, and a problem for each that asks
// people for something, also if the GPU can no longer be read. The critical ones come before
// all other problems, because a report holds no more than the first of many. The others come
// last. Both are by GPU and code: in an order that does not depend on time.
func (x *Xids) Show(n *topology.Node) {
	for i := range n.GPUs {
		n.GPUs[i].Xids = x.codes[n.GPUs[i].UUID]
	}
	type told struct {
		topology.Finding
		gpu  string
		code int // 0 of a recovery action
	}
	var found []told
	for uuid, codes := range x.codes {
		for _, code := range codes {
			if p, asks := xidProblem(uuid, code, len(codes) == 1); asks {
				found = append(found, told{p, uuid, code})
			}
		}
	}
	for i := range n.GPUs {
		if p, asks := recoveryProblem(&n.GPUs[i]); asks {
			found = append(found, told{p, n.GPUs[i].UUID, 0})
		}
	}
	slices.SortFunc(found, func(a, b told) int { return cmp.Or(cmp.Compare(a.gpu, b.gpu), cmp.Compare(a.code, b.code)) })
	var first, last []topology.Finding
	for _, p := range found {
		if NeedsRepair(p.Finding) {
			first = append(first, p.Finding)
		} else {
			last = append(last, p.Finding)
		}
	}
	n.Problems = slices.Concat(first, slices.DeleteFunc(slices.Clone(n.Problems), isOfXids), last)
}

// xidProblem returns the problem of a GPU's Xid. alone says that the GPU has no other Xid.
// It returns false if the Xid asks for nothing.
func xidProblem(uuid string, code int, alone bool) (topology.Finding, bool) {
	x := XidOf(code)
	p := topology.Finding{Reason: topology.ReasonXidLook}
	switch {
	case x.Class.Critical():
		p.Reason = topology.ReasonXidCritical
	case x.Class != XidLook || code == XidCleanup && !alone:
		return p, false
	}
	p.Message = fmt.Sprintf(xidMessage+", %s: %s", uuid, code, cmp.Or(x.Name, "which Quoin does not know"), x.Action)
	return p, true
}

// xidMessage begins the message of an Xid's problem.
const xidMessage = "GPU %s had Xid %d"

// readXid reads back what xidProblem has written. A report has no other place for the Xid of a GPU that it lacks.
func readXid(p topology.Finding) (uuid string, code int, is bool) {
	_, err := fmt.Sscanf(p.Message, xidMessage, &uuid, &code)
	return uuid, code, err == nil && isOfXids(p)
}

// isOfXids reports whether a problem is one that Show adds.
func isOfXids(p topology.Finding) bool {
	return NeedsRepair(p) || p.Reason == topology.ReasonXidLook || p.Reason == topology.ReasonRecoveryAdvised
}

// GPUOf returns the GPU that a report's problem is about, or "" if its message does not begin with one. A report has
// no field for the GPU of a problem.
func GPUOf(p topology.Finding) (uuid string) {
	_, _ = fmt.Sscanf(p.Message, "GPU %s", &uuid)
	return uuid
}
