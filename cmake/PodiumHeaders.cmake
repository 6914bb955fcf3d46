# The headers that programs outside the tree may include, as <podium/train/run/run.h>. This is the one list of them: they are
# installed, documented by Doxygen (scripts/docs.sh) and compiled alone (tests/install). scripts/docs.sh reads the first list
# too.

# The interface: documented, and kept as it is where possible.
set(PODIUM_PUBLIC_HEADERS
  podium.h
  base/numerics/activation.h
  base/error.h
  base/numerics/hash.h
  base/stop.h
  base/version.h
  tensor/field.h
  tensor/tensor.h
  graph/attributes.h
  graph/graph.h
  graph/op_def.h
  ops/op_list.h
  ops/op_registry.h
  ops/ops.h
  autodiff/gradients.h
  nn/metric.h
  nn/model.h
  nn/models.h
  nn/network.h
  nn/network_options.h
  nn/task_words.h
  optim/optimizer.h
  backend/device.h
  data/pairs/pair_options.h
  data/pictures/prepare/augment.h
  data/datasets/dataset.h
  data/datasets/dataset_registry.h
  data/pictures/image_set.h
  data/pictures/image_source.h
  data/pictures/picture_options.h
  data/source/array_source.h
  data/source/source.h
  data/sounds/sound_options.h
  data/table/table_options.h
  data/text/text_options.h
  data/pictures/prepare/normalise.h
  train/plugin/check_operation.h
  train/loop/checkpoint.h
  train/loop/confusion.h
  train/loop/evaluation.h
  train/plugin/plugin.h
  train/predict/generate.h
  train/predict/translate.h
  train/predict/predictor.h
  train/recipe/recipe.h
  train/run/run.h
  train/run/stored_run.h
  files/safetensors.h
  train/loop/trainer.h
  report/run_reports.h
  report/pages/run_report.h
  report/trackers/mlflow.h
  report/trackers/prometheus.h
  report/trackers/run_board.h
  report/trackers/scalars.h
  report/trackers/tensorboard.h)

# Installed because headers above include them. Details, which may change in any version.
set(PODIUM_CARRIED_HEADERS
  base/numerics/device_function.h
  base/numerics/functions.h
  base/numerics/precision.h
  base/numerics/tree.h
  data/source/option_problem.h
  ops/reference_sums.h
  files/file_io.h
  files/file_state.h
  store/address.h
  store/http.h
  store/object_store.h
  store/stored_folder.h
  train/machine/price.h
  train/program/program.h)

# The copies in the build folder: what a program sees that links Podium::podium inside this tree, and what is installed.
# In a copy each #include "folder/x.h" reads #include <podium/folder/x.h>.
set(PODIUM_HEADER_FOLDER ${PROJECT_BINARY_DIR}/generated/include)
set(headers ${PODIUM_PUBLIC_HEADERS} ${PODIUM_CARRIED_HEADERS})
if(PODIUM_CORE_ONLY)
  list(FILTER headers EXCLUDE REGEX "^(data|train|report|store)/|^podium\\.h$")
endif()
list(TRANSFORM headers PREPEND ${PROJECT_SOURCE_DIR}/src/ OUTPUT_VARIABLE sources)
list(TRANSFORM headers PREPEND ${PODIUM_HEADER_FOLDER}/podium/ OUTPUT_VARIABLE copies)
list(JOIN headers "," names)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/generated/headers.stamp
  BYPRODUCTS ${copies}
  COMMAND ${CMAKE_COMMAND} -D SOURCE=${PROJECT_SOURCE_DIR}/src -D TARGET=${PODIUM_HEADER_FOLDER}/podium
    -D HEADERS=${names} -P ${PROJECT_SOURCE_DIR}/cmake/write_headers.cmake
  COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/generated/headers.stamp
  DEPENDS ${sources} ${PROJECT_SOURCE_DIR}/cmake/write_headers.cmake ${CMAKE_CURRENT_LIST_FILE}
  COMMENT "Public headers" VERBATIM)
add_custom_target(podium_headers ALL DEPENDS ${PROJECT_BINARY_DIR}/generated/headers.stamp)
