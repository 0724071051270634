// Package probe is both ends of the pipe between the agent and the child that
// reads the machine. [Serve] is the child's end, [Supervisor] the parent's.
//
// NVML may hang, crash, or end the process that calls it. Only the child calls
// it; the parent kills the child and starts another.
//
// The child prints lines:
//
//   - a report, when it starts and whenever a fact changed;
//   - an empty line, when it read the machine and no fact changed;
//   - a sample of devices at every interval, if it was told to sample. When it is told of
//     other devices, a sample with only the hardware counters comes at once.
//
// The parent writes lines to the child's standard input: see [Sampling]. The
// child ends when its standard input is closed.
package probe
