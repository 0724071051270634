package gres

import "slices"

// Count counts the devices of a Type that the lines give, as slurmctld compares them with Gres= of
// slurm.conf. An empty Type stands for all. known is false if nodes detect their devices.
func Count(lines []Line, typ string) (n int, known bool) {
	of := slices.DeleteFunc(slices.Clone(lines), func(l Line) bool { return typ != "" && l.Type != typ })
	return devices(of), !slices.ContainsFunc(lines, func(l Line) bool { return l.AutoDetect != "" && l.AutoDetect != AutoDetectOff })
}
