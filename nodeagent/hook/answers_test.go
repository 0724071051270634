package hook

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/oracle"
)

// answersOld names a quoin-hook of another commit, which is compared with this one.
const answersOld = "QUOIN_HOOK_OLD"

// TestHookAnswers plays the same jobs on two programs, each with directories of its own, and
// compares the mapping and the exit code after each call. It does nothing unless
// QUOIN_HOOK_OLD names the other program.
func TestHookAnswers(t *testing.T) {
	old := os.Getenv(answersOld)
	if old == "" {
		return
	}
	current := filepath.Join(t.TempDir(), "quoin-hook")
	buildHook(t, current)
	base := oracle.SeedOf(t)
	for i := range uint64(oracle.Rounds(300, 2000)) {
		compareHooks(t, base+i, old, current)
	}
}

// compareHooks plays a seed's calls on both programs.
func compareHooks(t *testing.T, seed uint64, programs ...string) {
	t.Helper()
	random, steps := rand.New(rand.NewPCG(seed, 2)), []string{}
	dirs := []string{memoryDir(t), memoryDir(t)}
	for _, dir := range dirs {
		if err := os.Mkdir(filepath.Join(dir, "map"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 30 {
		verb := []string{"prolog", "epilog"}[random.IntN(2)]
		job := fmt.Sprint(7 + random.IntN(4))
		env := []string{"SLURM_CONF=" + configlessConf, "SLURM_JOB_ID=" + job, "SLURM_CLUSTER_NAME=" + []string{"a", "a", "a", "b"}[random.IntN(4)],
			"SLURMD_NODENAME=" + []string{"n1", "n1", "n1", "n2"}[random.IntN(4)], fmt.Sprint("SLURM_JOB_START_TIME=", 1000+n/2-random.IntN(3))}
		if random.IntN(3) == 0 {
			env = append(env, fmt.Sprint("SLURM_JOB_SLUID=s", random.IntN(5)))
		}
		if gpus := (&model{rand: random}).someGPUs(); len(gpus) > 0 {
			env = append(env, "SLURM_JOB_GPUS="+strings.Join(gpus, ","))
		}
		steps = append(steps, verb+" "+strings.Join(env[1:], " "))
		var got [2]map[string]string
		var exit [2]int
		for k, program := range programs {
			cmd := exec.CommandContext(t.Context(), program, verb, "--run-dir", filepath.Join(dirs[k], "run"), "--mapping-dir", filepath.Join(dirs[k], "map"))
			cmd.Env = env
			_ = cmd.Run()
			got[k], exit[k] = mapped(t, filepath.Join(dirs[k], "map")), cmd.ProcessState.ExitCode()
		}
		if diff := cmp.Diff(got[0], got[1]); diff != "" || exit[0] != exit[1] {
			t.Errorf("seed %d, after\n%s\nexit %d and %d, mapping (-old +new):\n%s", seed, strings.Join(steps, "\n"), exit[0], exit[1], diff)
			return
		}
	}
}
