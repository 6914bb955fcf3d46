#include "report/trackers/mlperf_log.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "report/trackers/wall_clock.h"
#include "train/recipe/recipe_keys.h"

namespace podium {
namespace {

constexpr double kTarget = 0.759;

std::string quoted_text_of(const std::string& text) { return json_text(nlohmann::json(text)); }

bool is_closed(const Recipe& recipe) {
  const std::string& optimizer = recipe.optimizer.name;
  return recipe.model.starts_with("resnet50") && (optimizer == "sgd" || optimizer == "lars") &&
         recipe.schedule.name == "polynomial" && recipe.optimizer_groups.empty();
}

}  // namespace

MlperfLog::MlperfLog(const std::filesystem::path& file) : path_(file), file_(file) {
  line("POINT_IN_TIME", "cache_clear", "true");
  line("INTERVAL_START", "init_start", "null");
}

void MlperfLog::line(const char* type, const char* key, const std::string& value,
                     const std::string& metadata, std::chrono::milliseconds ago) {
  file_ << R"(:::MLLOG {"namespace": "", "time_ms": )" << (wall_milliseconds() - ago).count()
        << R"(, "event_type": ")" << type << R"(", "key": ")" << key << R"(", "value": )" << value
        << R"(, "metadata": {"file": "mlperf_log.cc", "lineno": 1)"
        << (metadata.empty() ? "" : ", " + metadata) << "}}\n";
  file_.flush();
  PODIUM_REQUIRE(file_.good(), ExitCode::kUsage, path_.string(),
                 ": cannot be written; give --mlperf-log a file in a folder that exists");
}

void MlperfLog::epoch(const char* type, const char* key, std::int64_t number) {
  line(type, key, "null", cat("\"epoch_num\": ", number));
}

void MlperfLog::header(const Trainer& trainer) {
  const Recipe& recipe = trainer.recipe();
  const OptimizerOptions& optimizer = recipe.optimizer;
  const auto say = [&](const char* key, const std::string& value) {
    line("POINT_IN_TIME", key, value);
  };
  const bool closed = is_closed(recipe);
  say("submission_benchmark", quoted_text_of("resnet"));
  say("submission_org", quoted_text_of("none: no submission"));
  say("submission_platform", quoted_text_of("not described"));
  say("submission_division", quoted_text_of(closed ? "closed" : "open"));
  say("submission_status", quoted_text_of("research"));
  say("seed", cat(recipe.seed));
  say("global_batch_size", cat(recipe.batch));
  say("gradient_accumulation_steps", "1");
  say("train_samples", cat(training_examples(recipe)));
  say("opt_name", quoted_text_of(optimizer.name));
  if (!closed) return;
  const ScheduleOptions& schedule = recipe.schedule;
  const auto per_epoch = static_cast<double>(trainer.steps_per_epoch());
  const bool by_epoch = schedule.unit == "epoch";
  const double warmup_steps = by_epoch ? schedule.warmup * per_epoch : schedule.warmup;
  const std::string prefix = cat(optimizer.name, "_opt_");
  const auto say_own = [&](const char* key, const std::string& value) {
    say(cat(prefix, key).c_str(), value);
  };
  say_own("base_learning_rate", number_text(optimizer.learning_rate));
  say_own("end_learning_rate", number_text(schedule.floor));
  say_own("learning_rate_decay_poly_power", cat(schedule.power));
  say_own("learning_rate_decay_steps",
          cat(trainer.total_steps() - static_cast<std::int64_t>(warmup_steps)));
  say_own("momentum", number_text(optimizer.momentum));
  say_own("weight_decay", number_text(optimizer.weight_decay));
  const std::string warmup_epochs = number_text(warmup_steps / per_epoch);
  if (optimizer.name == "lars") {
    say("lars_epsilon", "0.0");
    say_own("learning_rate_warmup_epochs", warmup_epochs);
  } else {
    say("opt_learning_rate_warmup_epochs", warmup_epochs);
    say("model_bn_span", cat(recipe.batch / recipe.replicas));
  }
}

void MlperfLog::started(const Trainer& trainer, std::int64_t first_step, std::int64_t last_step) {
  header(trainer);
  last_step_ = last_step;
  line("INTERVAL_END", "init_stop", "null");
  line("INTERVAL_START", "run_start", "null");
  started_ = true;
  if (first_step >= last_step) return;
  epoch("INTERVAL_START", "epoch_start", first_step / trainer.steps_per_epoch() + 1);
}

void MlperfLog::stepped(const Trainer& trainer, const StepResult& step) {
  const std::int64_t done = trainer.steps_per_epoch();
  if (step.step % done != 0 && step.step != last_step_) return;
  epoch("INTERVAL_END", "epoch_stop", (step.step + done - 1) / done);
  if (step.step != last_step_) epoch("INTERVAL_START", "epoch_start", step.step / done + 1);
}

void MlperfLog::evaluated(const Trainer& trainer, const EvaluationResult& result) {
  if (!started_) return;
  if (eval_samples_ == 0) {
    eval_samples_ = result.sums.examples;
    line("POINT_IN_TIME", "eval_samples", cat(eval_samples_));
  }
  const std::int64_t per_epoch = trainer.steps_per_epoch();
  const std::string of_epoch = cat("\"epoch_num\": ", (result.step + per_epoch - 1) / per_epoch);
  line("INTERVAL_START", "eval_start", "null", of_epoch,
       std::chrono::milliseconds(static_cast<std::int64_t>(1000 * result.seconds)));
  line("POINT_IN_TIME", "eval_accuracy", number_text(result.metric()), of_epoch);
  line("INTERVAL_END", "eval_stop", "null", of_epoch);
  reached_ = reached_ || result.metric() >= kTarget;
}

void MlperfLog::finish() {
  if (started_)
    line("INTERVAL_END", "run_stop", "null",
         cat("\"status\": ", reached_ ? "\"success\"" : "\"aborted\""));
}

}  // namespace podium
