# A page as a small service makes it: records built, rendered and turned into JSON.
require "json"

run lambda { |env|
  rows = (1..200).map { |n| { id: n, name: "name #{n}", tags: [n.to_s, (n * 7).to_s], path: env["PATH_INFO"] } }
  body = JSON.generate(JSON.parse(JSON.generate(rows)).map { |row| row.merge("title" => row["name"].upcase) })
  [200, { "content-type" => "application/json" }, [body]]
}
