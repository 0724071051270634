package manifests_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestEpilogSlurmctld runs the script as slurmctld would, with programs that note
// how they are called: it exits with 0 whatever they do.
func TestEpilogSlurmctld(t *testing.T) {
	const gpus, script = "JobId=7 TRES=cpu=4,gres/gpu=2", "slurm/epilogslurmctld-quoin.sh"
	const hang = "\nexec sleep 300"
	tests := []struct {
		name, scontrol, quoin, sacctmgr string
		env, want                       []string
	}{
		{"a job", "echo " + gpus, "echo JS1:H4sI", "", nil, []string{
			"scontrol -o show job 7", "quoin job 7 --summary-dir /shared --wait 1s -o jobstats", "sacctmgr -i modify job where jobid=7 set AdminComment=JS1:H4sI"}},
		{"of a cluster, with a start", "echo " + gpus, "echo JS1:H4sI", "", []string{"SLURM_CLUSTER_NAME=hpc", "SLURM_JOB_START_TIME=1772366400"}, []string{
			"scontrol -o show job 7", "quoin job 7 --summary-dir /shared --wait 1s -o jobstats --cluster hpc --start 1772366400",
			"sacctmgr -i modify job where jobid=7 cluster=hpc set AdminComment=JS1:H4sI"}},
		{"the task that has the array's id", "echo " + gpus, "echo JS1:Short", "", []string{"SLURM_ARRAY_JOB_ID=7", "SLURM_ARRAY_TASK_ID=4"}, []string{
			"scontrol -o show job 7", "quoin job 7 --summary-dir /shared --wait 1s -o jobstats", "sacctmgr -i modify job where jobid=7_4 set AdminComment=JS1:Short"}},
		{"a component of a het job", "echo " + gpus, "echo JS1:None", "", []string{"SLURM_HET_JOB_ID=6", "SLURM_HET_JOB_OFFSET=1"}, []string{
			"scontrol -o show job 7", "quoin job 7 --summary-dir /shared --wait 1s -o jobstats", "sacctmgr -i modify job where jobid=6+1 set AdminComment=JS1:None"}},
		{"without GPUs", "echo JobId=7 TRES=cpu=4", "echo JS1:H4sI", "", nil, []string{"scontrol -o show job 7"}},
		{"slurmctld does not answer", "exit 1", "echo JS1:H4sI", "", nil, []string{"scontrol -o show job 7"}},
		{"slurmctld hangs", hang, "echo JS1:H4sI", "", nil, []string{"scontrol -o show job 7"}},
		{"not known", "echo " + gpus, "echo quoin: job 7 is not known here >&2; exit 1", "", nil, []string{"scontrol -o show job 7", "quoin job 7 --summary-dir /shared --wait 1s -o jobstats"}},
		{"the file system hangs", "echo " + gpus, hang, "", nil, []string{"scontrol -o show job 7", "quoin job 7 --summary-dir /shared --wait 1s -o jobstats"}},
		{"slurmdbd is away", "echo " + gpus, "echo JS1:H4sI", "exit 1", nil, []string{
			"scontrol -o show job 7", "quoin job 7 --summary-dir /shared --wait 1s -o jobstats", "sacctmgr -i modify job where jobid=7 set AdminComment=JS1:H4sI"}},
		{"slurmdbd hangs", "echo " + gpus, "echo JS1:H4sI", hang, nil, []string{
			"scontrol -o show job 7", "quoin job 7 --summary-dir /shared --wait 1s -o jobstats", "sacctmgr -i modify job where jobid=7 set AdminComment=JS1:H4sI"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			env := append(tt.env, "SLURM_JOB_ID=7", "QUOIN_SUMMARIES=/shared", "QUOIN_WAIT=1", "QUOIN_LIMIT=1")
			for name, does := range map[string]string{"scontrol": tt.scontrol, "quoin": tt.quoin, "sacctmgr": tt.sacctmgr} {
				path := filepath.Join(dir, name)
				text := "#!/bin/bash\necho " + name + " \"$@\" >> " + filepath.Join(dir, "calls") + "\n" + does + "\n"
				if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
				env = append(env, strings.ToUpper(name)+"="+path)
			}
			cmd := exec.CommandContext(t.Context(), script)
			cmd.Env, cmd.WaitDelay = env, time.Minute
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			calls, err := os.ReadFile(filepath.Join(dir, "calls"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, strings.Split(strings.TrimSpace(string(calls)), "\n")); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
	cmd := exec.CommandContext(t.Context(), script)
	cmd.Env = []string{"SLURM_JOB_ID=7", "SCONTROL=/nowhere/scontrol"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("without Slurm's programs: %v: %s", err, out)
	}
}
