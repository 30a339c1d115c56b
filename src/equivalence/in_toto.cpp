#include "regauge/equivalence/in_toto.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "equivalence/in_toto.h"
#include "io/base64.h"
#include "io/json.h"
#include "io/partial.h"
#include "io/regular_file.h"
#include "io/sha256.h"
#include "regauge/base/error.h"
#include "regauge/base/version.h"

namespace regauge {
namespace {

using Json = nlohmann::json;

constexpr const char* kStatement = "https://in-toto.io/Statement/v1";
constexpr const char* kPredicate = "https://regauge.github.io/regauge/in-toto.html#v1";
constexpr const char* kPayload = "application/vnd.in-toto+json";

// A file's name among the subjects: of both models, which may have files of one name.
std::string subject(const char* side, const std::string& file) { return side + ("/" + file); }

Json subjects_of(const Fingerprint& a, const Fingerprint& b) {
  Json subjects = Json::array();
  for (const auto& [side, files] : {std::pair{"a", &a}, std::pair{"b", &b}}) {
    for (const auto& [file, digest] : *files) {
      subjects.push_back({{"name", subject(side, file)}, {"digest", {{"sha256", digest}}}});
    }
  }
  return subjects;
}

Json as_json(const TensorResidual& residual) {
  return {{"tensor", residual.tensor},
          {"relation", relation_name(residual.relation)},
          {"size", residual.size},
          {"residual", residual.residual},
          {"rounding", residual.rounding}};
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw UsageError(fmt::format("[verify] {}: {}", path.string(), why));
}

// What an envelope holds, or the file's own object.
Json statement_in(const std::filesystem::path& path) {
  const std::string where = fmt::format("[verify] {}", path.string());
  Json file = io::read_json_object(path, where);
  if (file.contains("dsseEnvelope")) file = Json(file["dsseEnvelope"]);  // a bundle of sigstore's
  if (!file.is_object() || !file.contains("payload")) return file;
  if (file.value("payloadType", Json()) != kPayload || !file["payload"].is_string()) {
    refuse(path, fmt::format("its envelope does not hold {}", kPayload));
  }
  const auto payload = io::from_base64(file["payload"].get<std::string>());
  if (!payload) refuse(path, "the payload of its envelope is not base64");
  return io::parse_json_object(*payload, where);
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

Json at(const Json& object, const char* key) {
  return object.is_object() ? object.value(key, Json()) : Json();
}

// Of the kind that save_in_toto writes.
Json checked_statement(const std::filesystem::path& path) {
  Json statement = statement_in(path);
  if (text_at(statement, "_type") != kStatement) refuse(path, "this is no statement of in-toto");
  if (const std::string type = text_at(statement, "predicateType"); type != kPredicate) {
    refuse(path, fmt::format("its predicate is {}, and not {}", type, kPredicate));
  }
  return statement;
}

// The certificate that lies beside the statement.
std::string certificate_named(const std::filesystem::path& path, const Json& statement) {
  std::string name = text_at(at(at(statement, "predicate"), "certificate"), "name");
  if (name.empty() || std::filesystem::path(name).filename() != name) {
    refuse(path, "it names no certificate that could lie beside it");
  }
  const auto certificate = path.parent_path() / name;
  if (!std::filesystem::exists(certificate)) {
    refuse(path, fmt::format("its certificate {} does not lie beside it", name));
  }
  if (is_in_toto(certificate)) refuse(path, fmt::format("{} is no certificate", name));
  return name;
}

// As a list of names and hashes: the order of subjects says nothing.
std::map<std::string, std::string> listed(const Json& subjects) {
  std::map<std::string, std::string> files;
  if (!subjects.is_array()) return files;
  for (const Json& one : subjects) {
    files[text_at(one, "name")] = text_at(at(one, "digest"), "sha256");
  }
  return files;
}

void check_subjects(const Json& statement, const Verification& found,
                    std::vector<std::string>& problems) {
  const auto stated = listed(at(statement, "subject"));
  const auto here = listed(subjects_of(found.a, found.b));
  for (const auto& [name, digest] : here) {
    const auto entry = stated.find(name);
    if (entry == stated.end() || entry->second != digest) {
      problems.push_back(fmt::format("{} is not the file that the statement was made of", name));
    }
  }
  if (stated.size() != here.size()) {
    problems.push_back(
        fmt::format("the statement is about {} files and not {}", stated.size(), here.size()));
  }
}

}  // namespace

void save_in_toto(const Diff& found, const Certificate& certificate,
                  const std::filesystem::path& file, const std::filesystem::path& path) {
  if (found.verdict != Verdict::same) {
    throw UsageError("[in-toto] the models are not the same function");
  }
  Json tensors = Json::array();
  for (const auto& residual : certificate.residuals) tensors.push_back(as_json(residual));
  const Json statement = {{"_type", kStatement},
                          {"subject", subjects_of(certificate.a, certificate.b)},
                          {"predicateType", kPredicate},
                          {"predicate",
                           {{"regauge", version()},
                            {"verdict", verdict_name(found.verdict)},
                            {"statement", statement_name(found.statement)},
                            {"certificate",
                             {{"name", file.filename().string()},
                              {"digest", {{"sha256", sha256_of_file(file, Progress::silent())}}}}},
                            {"declarations", found.declarations},
                            {"notCompared", found.not_compared},
                            {"tensors", tensors}}}};
  io::write_new(path, statement.dump(2) + "\n");
}

bool is_in_toto(const std::filesystem::path& path) {
  const std::string head = io::read_file(path, 8);
  // A safetensors file begins with a length, whose last byte is 0.
  return !head.empty() && head.front() == '{' && head.back() != 0;
}

std::filesystem::path certificate_of(const std::filesystem::path& path) {
  return is_in_toto(path) ? path.parent_path() / certificate_named(path, checked_statement(path))
                          : path;
}

Verification verify_in_toto(const Model& a, const Model& b, const std::filesystem::path& path,
                            Progress& progress) {
  const Json statement = checked_statement(path), predicate = at(statement, "predicate");
  const std::string name = certificate_named(path, statement);
  const auto certificate = path.parent_path() / name;
  Verification result = verify(a, b, certificate, progress);
  if (sha256_of_file(certificate, progress) !=
      text_at(at(at(predicate, "certificate"), "digest"), "sha256")) {
    result.problems.push_back(
        fmt::format("{} is not the certificate that the statement names", name));
  }
  check_subjects(statement, result, result.problems);
  const std::string_view now = statement_name(statement_of_same(result.identity, result.residuals));
  if (text_at(predicate, "verdict") != verdict_name(Verdict::same) ||
      text_at(predicate, "statement") != now) {
    result.problems.push_back(fmt::format("it states '{}', '{}', and these models are '{}' at most",
                                          text_at(predicate, "verdict"),
                                          text_at(predicate, "statement"), now));
  }
  return result;
}

}  // namespace regauge
