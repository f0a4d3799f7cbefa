"""Names that Olive, Optimum, ONNX Runtime, Model Navigator, DVC, Snakemake and others use, and ours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

SEPARATORS = re.compile(r"[^a-z0-9]")

# Our names, each with those that people know it by. What is offered is always a name that is known where it is missed.
NAMES: Mapping[str, str] = {
    # Keys of a file and of a stage.
    "stages": "passes pass_flows pipeline jobs rule rules steps tasks nodes input_model evaluators",
    "targets": "systems system target host accelerators devices execution_providers providers",
    "vars": "params parameters config configfile constants variables globals",
    "environments": "conda requirements",
    "extends": "include includes imports base inherits defaults",
    "seed": "random_seed",
    "needs": "deps depends depends_on dependencies input inputs requires after upstream input_model",
    "uses": "kind type cmd command run script shell pass rule op function callable do",
    "with": "params parameters config args arguments kwargs options settings",
    "gate": "goal goals thresholds assert criteria check",
    "matrix": "foreach strategy sweep grid for_each search_space",
    "env": "environ env_vars envvars",
    "environment": "conda container venv docker system",
    "resources": "threads cpus cores gpus gpu memory mem mem_mb",
    "allow": "pass warn",
    "session": "session_options sess_options threads num_threads",
    "packages": "pip dependencies",
    "cpu": "CPUExecutionProvider",
    "timeout": "timeout_minutes time_limit walltime max_time",
    # Kinds.
    "convert/torch": "OnnxConversion export torch_export torch.onnx.export PyTorchModel HfModel hugging_face_model"
    " optimum pytorch capture_onnx_graph OptimumConversion OpenVINOOptimumConversion",
    "convert/tensorflow": "tf2onnx keras TensorFlowModel",
    "convert/sklearn": "skl2onnx sklearn",
    "convert/onnx": "ONNXModel import load onnx",
    "convert/opset": "OnnxOpVersionConversion version_converter",
    "check/model": "onnx.checker validate checker",
    "optimize/simplify": "onnxsim onnxslim OnnxModelOptimizer OnnxPeepholeOptimizer simplify_model",
    "optimize/shapes": "DynamicToFixedShape StaticLLM symbolic_shape_infer shape_inference make_dynamic_shape_fixed",
    "optimize/transformer": "OrtTransformersOptimization fuse fusion transformers_optimization",
    "optimize/graph": "ort_optimize OrtOptimization",
    "optimize/float16": "OnnxFloatToFloat16 OrtMixedPrecision OnnxIOFloat16ToFloat32 fp16 half float_to_float16"
    " mixed_precision",
    "optimize/prune": "SparseGPT sparsify",
    "optimize/python": "GraphSurgeries graph_surgery graphsurgeon",
    "compile/engine": "EPContextBinaryGenerator tensorrt trt OpenVINOConversion openvino trtexec engine"
    " OpenVINOEncapsulation QNNContextBinaryGenerator QNNConversion SNPEConversion TorchTRTConversion",
    "compile/mobile": "ort_format convert_onnx_models_to_ort",
    "quantize/dynamic": "OnnxDynamicQuantization quantize quantise quantize_dynamic int8 quantization"
    " IncDynamicQuantization ORTQuantizer",
    "quantize/static": "OnnxStaticQuantization OnnxQuantization quantize_static IncStaticQuantization IncQuantization"
    " ptq VitisAIQuantization VitisQuantization AimetQuantization QuarkQuantization SNPEQuantization"
    " OpenVINOQuantization",
    "quantize/weights": "OnnxMatMul4Quantizer OnnxBlockWiseRtnQuantization OnnxHqqQuantization int4 MatMulNBits gptq"
    " rtn hqq AutoGPTQQuantizer GptqQuantizer matmul_nbits_quantizer OnnxKQuantQuantization NVModelOptQuantization"
    " OnnxBnb4Quantization MatMulNBitsToQDQ",
    "quantize/qat": "QuantizationAwareTraining qat prepare_qat",
    "quantize/tune": "search optuna auto_opt nav.torch.optimize",
    "measure/accuracy": "evaluate eval evaluator test correctness verify accuracy",
    "measure/latency": "measure benchmark perf performance profiler timeit latency measure/throughput throughput",
    "release/bundle": "package packaging PackagingConfig",
    "release/publish": "upload push deploy push_to_hub",
    "release/triton": "triton_model_repository tritonserver",
    # Parameters.
    "opset": "target_opset opset_version target_opset_version onnx_opset",
    "version": "target_opset opset_version target_opset_version opset",
    "inputs": "input_names input_shapes input_shape io_config dummy_inputs dummy_input example_inputs sample_inputs"
    " input_signature dynamic_axes dynamic_shapes data dataset dataloader data_config",
    "outputs": "output_names",
    "path": "model_path onnx_model model_file model file filename onnx_path",
    "model": "model_path model_loader model_script loader script model_name_or_path model_name model_id module path"
    " file pretrained checkpoint estimator function",
    "hub": "hf_model repo_id",
    "exporter": "use_dynamo_exporter use_dynamo dynamo",
    "external_data": "save_as_external_data use_external_data_format use_external_data",
    "target": "device provider providers execution_provider execution_providers ep accelerator backend runner system"
    " session_options sess_options num_threads threads intra_op_num_threads inter_op_num_threads",
    "dataset": "data data_config calibration_data calibration_dataset calibration_data_reader calib_data dataloader"
    " dataset_name user_script eval_dataset test_data examples inputs calibration",
    "data": "dataset initial_types calibration_data",
    "calibration": "calibration_data calibration_dataset calibration_data_reader calib_data",
    "method": "calibrate_method calibration_method algorithm",
    "samples": "num_samples n_samples sample_count max_samples calib_size num_calibration_samples calibration_samples"
    " repeat_test_num num_runs iterations repeats repeat n_iter num_iterations number rounds runs min_rounds",
    "runs": "repeat_test_num num_runs iterations repeats repeat n_iter num_iterations number samples",
    "format": "quant_format",
    "weight_type": "quant_type weights_dtype weight_dtype dtype precision w_type",
    "activation_type": "activations_dtype activation_dtype act_type",
    "bits": "num_bits nbits w_bits precision weight_bits",
    "block_size": "group_size",
    "algorithm": "algo method quant_algorithm",
    "op_types": "op_types_to_quantize operators_to_quantize",
    "exclude": "nodes_to_exclude exclude_nodes nodes_to_skip ignored_scope skip",
    "include": "nodes_to_quantize include_nodes",
    "block_types": "op_block_list force_fp32_ops ops_to_exclude exclude_ops",
    "block_nodes": "node_block_list force_fp32_nodes nodes_to_exclude exclude",
    "preprocess": "quant_preprocess pre_process",
    "symmetric": "is_symmetric ActivationSymmetric WeightSymmetric sym",
    "smooth": "SmoothQuant SmoothQuantAlpha smooth_quant_alpha",
    "moving_average": "CalibMovingAverage",
    "overrides": "TensorQuantOverrides",
    "level": "optimization_level opt_level graph_optimization_level",
    "skip": "skipped_optimizers disabled_optimizers skip_optimizers",
    "num_heads": "num_attention_heads n_heads",
    "hidden_size": "hidden_dim d_model",
    "fix": "dim_param dim_value input_shape input_shapes fixed_shapes overwrite_input_shapes",
    "batch": "batch_size bs",
    "dims": "test_input_shapes input_shapes batch_size sequence_length shape",
    "atol": "absolute_tolerance tolerance tol abs_tol eps",
    "rtol": "relative_tolerance rel_tol",
    "shape": "sequence_length seq_len max_length input_shape input_shapes dims",
    "warmup": "warmup_num warmup_iterations warmup_runs warmups warm_up warmup_rounds num_warmup",
    "io_binding": "io_bind use_io_binding",
    "time": "duration timeout max_time min_time",
    "metrics": "metric metric_name sub_types",
    "to": "destination dest output_dir output url repo path folder",
    "clients": "concurrency users workers",
    "trials": "n_trials max_samples num_trials",
    "reference": "baseline original fp32 float_model base_model compare_to",
    "any": "or any_of anyOf either one_of",
    "all": "99 ORT_ENABLE_ALL and all_of allOf every",
    "layout": "3 ORT_ENABLE_LAYOUT",
    "extended": "2 ORT_ENABLE_EXTENDED",
    "basic": "1 ORT_ENABLE_BASIC",
    "disable": "optimization_options disabled_optimizers 0 ORT_DISABLE_ALL",
    # Types of values.
    "int64": "int integer long",
    "float32": "float single fp32",
    "float64": "double fp64",
    "float16": "half fp16",
    "bool": "boolean",
    # Rules of a gate.
    "max": "less_than lt lte le upper at_most below lower_is_better",
    "min": "greater_than gt gte ge lower at_least above higher_is_better",
    "max_drop": "max_degradation percent_max_degradation drop",
    "min_speedup": "min_improvement percent_min_improvement improvement speedup",
    "max_regression": "regression compare_fail max_slowdown baseline",
    # Metrics.
    "p50": "latency median avg_latency mean_latency",
    "mean": "avg average",
    "p99": "p999",
    "throughput": "ops qps fps samples_per_second",
    "size": "model_size disk_size size_on_disk bytes file_size",
    "accuracy": "accuracy_score acc top1 top_1 exact_match",
    "f1": "f1_score macro_f1",
    "auc": "auroc roc_auc roc_auc_score",
    "average_precision": "map mean_average_precision pr_auc",
    "max_abs": "max_abs_error max_diff max_error allclose",
    "cosine": "cosine_similarity cos_sim similarity",
    "sqnr": "snr psnr",
    "peak": "max_rss rss memory peak_memory",
}

PROFILING = "the profiler slows a session down, so that it has a kind by itself: `uses: measure/profile`"
# Where a name alone does not say it: by what the key was to be, the names that people try and what to do instead.
NOTES: Mapping[str, Mapping[str, str]] = {
    "kind of stage": {
        "OnnxQuantization IncQuantization": "where its `quant_mode` or `approach` is dynamic: quantize/dynamic",
        "OrtPerfTuning OrtSessionParamsTuning": "session options are those of targets: measure/latency with a `matrix`"
        " over targets times each",
        "OnnxIOFloat16ToFloat32 OnnxIODataTypeConverter": "optimize/float16 leaves inputs and outputs in float32"
        " (`keep_io_types`); to other types it is optimize/python with `interface: changed`",
        "OnnxQuantizationPreprocess quant_pre_process": "a parameter of what quantizes: `preprocess`, true if left out",
        "MatMulNBitsToQDQ": "a parameter of quantize/weights: `format: qdq`",
        "MixedPrecisionOverrides SelectiveMixedPrecision QNNPreprocess": "quantize/static takes `overrides`, other"
        " types for some tensors or nodes",
        "AppendPrePostProcessingOps InsertBeamSearch OnnxScriptFusion OptimumMerging SplitModel ComposeOnnxModels"
        " ExtractAdapters MoEExpertsDistributor": "a change of the graph that the library lacks is a function of yours:"
        " optimize/python, with `interface: changed` where inputs or outputs change",
        "LoRA QLoRA DoRA LoHa LoKr LoftQ MergeAdapterWeights SliceGPT QuaRot SpinQuant AutoAWQQuantizer": "what changes"
        " the PyTorch module stands in the function that `model` of convert/torch names, or in a stage of your own",
        "ModelBuilder": "convert/onnx takes what ONNX Runtime GenAI's model builder wrote; a function of yours may run"
        " it: `uses: ./file.py:function`",
    },
    "key of a pipeline file": {
        "input_model": "a model comes from a stage: `import: {uses: convert/onnx, with: {path: model.onnx}}`",
        "evaluators": "what measures is a stage with a `gate`: measure/accuracy, measure/latency and others",
        "host evaluator": "which stage measures which, and where, each stage says: `needs`, and `target` in its `with`",
        "data_configs data_config datasets dataset": "a dataset is named where it is used:"
        " `with: {dataset: data.py:function}`, or a file",
        "search_strategy search": "what searches is a kind: `orun stages quantize/tune`; `matrix` of a stage tries all",
        "cache_dir output_dir workdir store cache": "where results are kept is said on the command line: --store DIR",
        "metrics plots": "metrics are those of each stage's kind, and its `gate` judges them",
        "gate gates": "a gate stands in the stage that measures",
        "version": "the version of a release is a parameter: `{uses: release/bundle, with: {version: ...}}`",
    },
    "key of a stage": {
        "cmd command run script shell do": "a stage is a kind of the library, or a function:"
        " `uses: ./file.py:function`; `orun stages` lists the kinds",
        "outs out output outputs": "what a stage leaves is in artifacts/out/PIPELINE/STAGE",
        "metrics plots": "metrics are those of the stage's kind, and its `gate` judges them",
        "wdir cwd workdir": "paths are relative to the pipeline file",
        "frozen always_changed cache persist": "what runs regardless is said on the command line: --force STAGE",
        "desc description title": "what a stage is for stands in a comment: # ...",
        "if when enabled disabled condition": "stages are chosen on the command line: --to, --from, --only",
    },
    "parameter of": {
        "dynamic_axes dynamic_shapes": "an axis with a name in place of a size is dynamic:"
        " `inputs: {ids: {shape: [batch, sequence]}}`",
        "num_threads threads intra_op_num_threads inter_op_num_threads session_options sess_options": "session options"
        " are those of a target: `targets: {NAME: {providers: [...], session: {intra_op_num_threads: 1}}}`",
        "use_gpu device ep provider providers execution_provider execution_providers accelerator": "where a model runs"
        " is a target: `targets: {NAME: {providers: [...]}}`, and `target: NAME`",
        "warmup_num warmup_iterations warmup_runs warmups warmup_rounds num_warmup": "a duration, not a count:"
        " `warmup: 50ms`",
        "quant_mode is_static": "quantize/dynamic and quantize/static are two kinds",
        "float16 fp16 use_fp16": "a kind by itself: optimize/float16",
        "profiling enable_profiling profile": PROFILING,
        "threshold goal goals max_latency": "what must hold of a metric is a `gate`, beside `with`",
    },
    "key of a target": {"profiling enable_profiling profile": PROFILING},
    "session option": {
        "profiling enable_profiling profile profile_file_prefix": PROFILING,
        "optimized_model_filepath save_optimized_model": "a kind by itself: optimize/graph",
        "providers provider ep execution_providers": "providers stand beside `session`: `providers: [...]`",
    },
    "parameter of convert/onnx": {"opset target_opset opset_version": "what changes it is a kind: convert/opset"},
    "rule of a gate": {
        "threshold goal value target_value": "`min` for what it must be at least, `max` for what it may be at most",
    },
}


def meant(word: str, options: Iterable[str]) -> str:
    """The option that another tool calls by that name, or an empty text."""
    known, plain = set(options), _plain(word)
    return next((name for name, others in NAMES.items() if name in known and plain in map(_plain, others.split())), "")


def note(word: str, noun: str) -> str:
    """What to do instead of a key that another tool has, or an empty text.

    Args:
        word: the key.
        noun: what it was to be: `key of a stage`, `parameter of quantize/dynamic`.
    """
    notes = ((names, text) for one, texts in NOTES.items() if noun.startswith(one) for names, text in texts.items())
    return next((text for names, text in notes if _plain(word) in map(_plain, names.split())), "")


def _plain(name: str) -> str:
    return SEPARATORS.sub("", name.lower())
