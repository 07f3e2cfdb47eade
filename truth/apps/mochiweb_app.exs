# A server in Elixir on MochiWeb with one habit, given by name: PORT HABIT.
defmodule Truth do
  require Logger

  @body String.duplicate("x", 1024)
  @sessions 500_000
  @sweep_ms 500
  @cart Enum.to_list(1..12)
  # Words that customers are asked not to write, as the shop's people edit them.
  @words Enum.map_join(1..150, "|", &"word#{&1}s?")
  @comment "The valve opens and shuts"

  def main([port, habit]) do
    page = prepare(habit)
    loop = fn request -> :mochiweb_request.respond({200, [{'Content-Type', 'text/plain'}], page.()}, request) end

    options = [ip: '127.0.0.1', port: String.to_integer(port), nodelay: true, link: false, loop: loop]
    {:ok, _} = :mochiweb_http.start([{:name, __MODULE__} | options])
  end

  # What has to be there before the first request; answers the page.
  defp prepare("plain"), do: fn -> @body end

  defp prepare("words-each-time"), do: fn -> decent(words()) end

  defp prepare("words-kept") do
    :persistent_term.put(:words, words())
    fn -> decent(:persistent_term.get(:words)) end
  end

  defp prepare("debug-log"), do: fn -> told() end

  defp prepare("warnings-log") do
    Logger.configure(level: :warning)
    fn -> told() end
  end

  defp prepare("sessions-as-list"), do: sessions(&swept_as_list/1)
  defp prepare("sessions-by-pattern"), do: sessions(&swept_by_pattern/1)

  defp words, do: Regex.compile!("\\b(?:#{@words})\\b", "i")

  defp decent(words), do: to_string(not Regex.match?(words, @comment))

  defp told do
    for step <- ~w[session cart prices page] do
      Logger.debug("#{step}: found in #{byte_size(@body)} bytes of #{inspect(self())}")
    end

    @body
  end

  # Sessions of visitors; what has been idle for too long is thrown away, twice a second.
  defp sessions(swept) do
    caller = self()

    spawn(fn ->
      table = :ets.new(:sessions, [:named_table, :public, read_concurrency: true])
      for n <- 1..@sessions, do: :ets.insert(table, {n, now() + 3600, %{name: "visitor #{n}", cart: @cart}})
      send(caller, :ready)
      sweep(table, swept)
    end)

    receive do: (:ready -> :ok)

    fn ->
      [{_, _, %{name: name}}] = :ets.lookup(:sessions, 7)
      name
    end
  end

  defp sweep(table, swept) do
    Process.sleep(@sweep_ms)
    swept.(table)
    sweep(table, swept)
  end

  # Copies the whole table.
  defp swept_as_list(table) do
    for {n, ends, _} <- :ets.tab2list(table), ends < now(), do: :ets.delete(table, n)
  end

  # Looks at the ends where they are.
  defp swept_by_pattern(table), do: :ets.select_delete(table, [{{:_, :"$1", :_}, [{:<, :"$1", now()}], [true]}])

  defp now, do: System.monotonic_time(:second)
end

Truth.main(System.argv())
