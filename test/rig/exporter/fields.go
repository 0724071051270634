package exporter

import (
	"strconv"
	"strings"
)

// field is how a field's value is printed.
type field struct {
	since49 bool // a name of 4.9
	always  bool // a name of both generations
	value   func(*Device) (string, bool)
}

// Numbers of DCGM are integers or doubles; the exporter prints doubles with six
// digits.
func integer(f func(*Device) float64) func(*Device) (string, bool) {
	return func(d *Device) (string, bool) { return strconv.FormatInt(int64(f(d)), 10), true }
}

func double(f func(*Device) float64) func(*Device) (string, bool) {
	return func(d *Device) (string, bool) { return strconv.FormatFloat(f(d), 'f', 6, 64), true }
}

// wholeGPU has no value for a MIG instance.
func wholeGPU(f func(*Device) (string, bool)) func(*Device) (string, bool) {
	return func(d *Device) (string, bool) {
		if d.Profile != "" {
			return "", false
		}
		return f(d)
	}
}

func limit(d *Device) (string, bool) {
	return strconv.FormatFloat(d.Limit, 'f', 6, 64), d.Limit > 0
}

// linkErrors are errors of one kind, which only GPUs of NVLink 5, or only those before it,
// count.
func linkErrors(nvlink5 bool, multiple float64) func(*Device) (string, bool) {
	return func(d *Device) (string, bool) {
		return strconv.FormatFloat(d.LinkErrors*multiple, 'f', 0, 64), strings.Contains(d.Model, "GB200") == nvlink5
	}
}

const mib = 1 << 20

var fields = map[string]field{
	"DCGM_FI_DEV_SM_CLOCK":                 {value: integer(func(d *Device) float64 { return d.Hertz / 1e6 })},
	"DCGM_FI_DEV_MEMORY_TEMP":              {value: integer(func(d *Device) float64 { return d.MemoryCelsius })},
	"DCGM_FI_DEV_GPU_TEMP":                 {value: integer(func(d *Device) float64 { return d.Celsius })},
	"DCGM_FI_DEV_POWER_USAGE":              {value: double(func(d *Device) float64 { return d.Watts })},
	"DCGM_FI_DEV_ENFORCED_POWER_LIMIT":     {value: limit},
	"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": {value: integer(func(d *Device) float64 { return d.Joules * 1000 })},
	"DCGM_FI_DEV_GPU_UTIL":                 {value: wholeGPU(integer(func(d *Device) float64 { return d.Utilization * 100 }))},
	"DCGM_FI_DEV_XID_ERRORS":               {value: integer(func(d *Device) float64 { return float64(d.Xid) })},
	"DCGM_FI_DEV_FB_FREE":                  {value: integer(func(d *Device) float64 { return (d.Size - d.Used - d.Reserved) / mib })},
	"DCGM_FI_DEV_FB_USED":                  {value: integer(func(d *Device) float64 { return d.Used / mib })},
	"DCGM_FI_DEV_FB_RESERVED":              {value: integer(func(d *Device) float64 { return d.Reserved / mib })},
	"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL":   {value: wholeGPU(integer(func(d *Device) float64 { return d.NVLink / 1e6 }))},
	"DCGM_FI_DEV_ROW_REMAP_FAILURE":        {value: integer(remapFailed)},
	"DCGM_FI_PROF_GR_ENGINE_ACTIVE":        {value: double(func(d *Device) float64 { return d.Engine })},
	"DCGM_FI_PROF_SM_ACTIVE":               {value: double(func(d *Device) float64 { return d.SM })},
	"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE":      {value: double(func(d *Device) float64 { return d.Tensor })},
	"DCGM_FI_PROF_DRAM_ACTIVE":             {value: double(func(d *Device) float64 { return d.DRAM })},

	"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": {value: linkErrors(false, 1)},
	"DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": {value: linkErrors(false, 2)},
	"DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL":   {value: linkErrors(false, 4)},
	"DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": {value: linkErrors(false, 8)},
	"DCGM_FI_DEV_PCIE_REPLAY_COUNTER":               {value: integer(func(d *Device) float64 { return d.Replays })},

	"DCGM_FI_DEV_SM_CLOCK_HERTZ":                     {since49: true, value: integer(func(d *Device) float64 { return d.Hertz })},
	"DCGM_FI_DEV_MEMORY_TEMP_CELSIUS":                {since49: true, value: integer(func(d *Device) float64 { return d.MemoryCelsius })},
	"DCGM_FI_DEV_GPU_TEMP_CELSIUS":                   {since49: true, value: integer(func(d *Device) float64 { return d.Celsius })},
	"DCGM_FI_DEV_BOARD_POWER_WATTS":                  {since49: true, value: double(func(d *Device) float64 { return d.Watts })},
	"DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS":   {since49: true, value: limit},
	"DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL":            {since49: true, value: integer(func(d *Device) float64 { return d.Joules })},
	"DCGM_FI_DEV_GPU_UTIL_RATIO":                     {since49: true, value: wholeGPU(double(func(d *Device) float64 { return d.Utilization }))},
	"DCGM_FI_DEV_XID_ERROR":                          {since49: true, value: firstXid},
	"DCGM_FI_DEV_FB_FREE_BYTES":                      {since49: true, value: integer(func(d *Device) float64 { return d.Size - d.Used - d.Reserved })},
	"DCGM_FI_DEV_FB_USED_BYTES":                      {since49: true, value: integer(func(d *Device) float64 { return d.Used })},
	"DCGM_FI_DEV_FB_RESERVED_BYTES":                  {since49: true, value: integer(func(d *Device) float64 { return d.Reserved })},
	"DCGM_FI_DEV_FB_CAPACITY_BYTES":                  {since49: true, value: integer(func(d *Device) float64 { return d.Size })},
	"DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND": {since49: true, value: wholeGPU(integer(func(d *Device) float64 { return d.NVLink }))},
	"DCGM_FI_DEV_ROW_REMAP_FAILED":                   {since49: true, value: integer(remapFailed)},
	"DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO":              {since49: true, value: double(func(d *Device) float64 { return d.Engine })},
	"DCGM_FI_PROF_SM_UTIL_RATIO":                     {since49: true, value: double(func(d *Device) float64 { return d.SM })},
	"DCGM_FI_PROF_TENSOR_UTIL_RATIO":                 {since49: true, value: double(func(d *Device) float64 { return d.Tensor })},
	"DCGM_FI_PROF_DRAM_UTIL_RATIO":                   {since49: true, value: double(func(d *Device) float64 { return d.DRAM })},
	"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_TOTAL":        {since49: true, value: linkErrors(false, 1)},
	"DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_TOTAL":        {since49: true, value: linkErrors(false, 2)},
	"DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL":          {since49: true, value: linkErrors(false, 4)},
	"DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL":        {since49: true, value: linkErrors(false, 8)},
	"DCGM_FI_DEV_NVLINK_RX_ERROR_TOTAL":              {since49: true, value: linkErrors(true, 3)},
	"DCGM_FI_DEV_NVLINK_RECOVERY_EVENT_TOTAL":        {since49: true, value: linkErrors(true, 8)},
	"DCGM_FI_DEV_PCIE_REPLAY_TOTAL":                  {since49: true, value: integer(func(d *Device) float64 { return d.Replays })},

	"DCGM_FI_DEV_CLOCKS_EVENT_REASONS": {always: true, value: integer(func(d *Device) float64 { return float64(d.ClockEvents) })},
	"DCGM_FI_PROF_PCIE_TX_BYTES":       {always: true, value: integer(func(d *Device) float64 { return d.PCIeTX })},
	"DCGM_FI_PROF_PCIE_RX_BYTES":       {always: true, value: integer(func(d *Device) float64 { return d.PCIeRX })},
}

// firstXid has no value before the first Xid, as since 4.5.3.
func firstXid(d *Device) (string, bool) { return strconv.Itoa(d.Xid), d.Xid != 0 }

func remapFailed(d *Device) float64 {
	if d.RowRemapFailed {
		return 1
	}
	return 0
}
