# The habits of the plumber cases: plumber_app.R PORT HABIT FILE [PORT OF A SERVICE].
library(plumber)

args <- commandArgs(trailingOnly = TRUE)
habit <- args[2]
file <- args[3]
readings <- read.csv(file)
handle <- curl::new_handle()
kept <- list(until = 0, text = "")

averages <- function(readings) round(tapply(readings$bar, readings$hall, mean), 3)

# One row after the other is put below those that are there.
rows_bound <- function() {
  rows <- data.frame()
  for (n in 1:40) {
    rows <- rbind(rows, data.frame(id = n, name = paste("valve", n), bar = n / 7))
  }
  rows
}

rows <- function() {
  n <- 1:40
  data.frame(id = n, name = paste("valve", n), bar = n / 7)
}

rate <- function() {
  answer <- curl::curl_fetch_memory(paste0("http://127.0.0.1:", args[4], "/"), handle = handle)
  length(answer$content)
}

rate_kept <- function() {
  now <- as.numeric(Sys.time())
  if (now > kept$until) {
    kept <<- list(until = now + 30, text = rate())
  }
  kept$text
}

page <- switch(habit,
  "readings-read" = function() averages(read.csv(file)),
  "readings" = function() averages(readings),
  "rows-bound" = rows_bound,
  "rows" = rows,
  "rate" = rate,
  "rate-kept" = rate_kept,
  function() "open and shut"
)

pr() |>
  pr_get("/", page) |>
  pr_run(host = "127.0.0.1", port = as.integer(args[1]), docs = FALSE, quiet = TRUE)
