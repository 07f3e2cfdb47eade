// A server on HttpListener with one habit, given by name: Mono.exe PORT HABIT [SERVICE_PORT].
using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Net;
using System.Text;
using System.Text.RegularExpressions;
using System.Threading;

static class Shop
{
    const int Threads = 16;
    const int Default = 2;
    const int Pool = 64;

    static readonly string Body = new string('x', 1024);
    static readonly string[] Prices = AllPrices();
    static string service;

    // ---- a price of a service ----

    static string Price()
    {
        var request = (HttpWebRequest)WebRequest.Create(service);
        using (var response = request.GetResponse())
        using (var reader = new StreamReader(response.GetResponseStream()))
            return reader.ReadToEnd();
    }

    // ---- lines of orders, in which a customer's are looked for ----

    const string Line = @" orders (?<number>\d{1,6}) (?<what>valve|pump|filter|gauge)s?( by (?<day>\w+day))?$";
    static readonly Regex Kept = new Regex("^(?<who>[a-z]+ \\d+)" + Line, RegexOptions.Compiled);
    static int customer;

    static string NextCustomer()
    {
        return "customer " + Interlocked.Increment(ref customer) % 100000;
    }

    static string OrderOf(string who)
    {
        return who + " orders 7 valves by Monday";
    }

    static string FoundByOwnPattern()
    {
        string who = NextCustomer();
        var own = new Regex("^" + Regex.Escape(who) + Line, RegexOptions.Compiled);
        return own.Match(OrderOf(who)).Groups["number"].Value;
    }

    static string FoundByKeptPattern()
    {
        string who = NextCustomer();
        Match found = Kept.Match(OrderOf(who));
        return found.Groups["who"].Value == who ? found.Groups["number"].Value : "";
    }

    // ---- a list of prices, some of which are only known on request ----

    static string[] AllPrices()
    {
        var prices = new string[120];
        for (int n = 0; n < prices.Length; n++)
            prices[n] = n % 3 == 0 ? "on request" : (n * 37 % 900).ToString(CultureInfo.InvariantCulture);
        return prices;
    }

    static int KnownByException(string price)
    {
        try
        {
            return int.Parse(price, CultureInfo.InvariantCulture);
        }
        catch (FormatException)
        {
            return 0;
        }
    }

    static int Known(string price)
    {
        int known;
        return int.TryParse(price, NumberStyles.Integer, CultureInfo.InvariantCulture, out known) ? known : 0;
    }

    static string Total(Func<string, int> known)
    {
        int sum = 0;
        foreach (string price in Prices)
            sum += known(price);
        return "all that has a price costs " + sum;
    }

    static readonly Dictionary<string, Func<string>> Habits = new Dictionary<string, Func<string>>
    {
        { "plain", () => Body },
        { "price-two-connections", Price },
        { "price", Price },
        { "pattern-each-time", FoundByOwnPattern },
        { "pattern", FoundByKeptPattern },
        { "known-by-exception", () => Total(KnownByException) },
        { "known", () => Total(Known) },
    };

    static void Serve(HttpListener listener, Func<string> page)
    {
        for (;;)
        {
            HttpListenerContext context = listener.GetContext();
            try
            {
                byte[] body = Encoding.UTF8.GetBytes(page());
                context.Response.ContentType = "text/plain";
                context.Response.ContentLength64 = body.Length;
                context.Response.OutputStream.Write(body, 0, body.Length);
                context.Response.Close();
            }
            catch (IOException)
            {
                context.Response.Abort();
            }
        }
    }

    static void Main(string[] args)
    {
        Func<string> page = Habits[args[1]];
        service = args.Length > 2 ? "http://127.0.0.1:" + args[2] + "/" : null;
        // A request to another server takes threads of the pool, of which there is one for a core at first.
        ThreadPool.SetMinThreads(Pool, Pool);
        // Two connections to a host is what the framework has unless somebody says otherwise.
        ServicePointManager.DefaultConnectionLimit = args[1] == "price-two-connections" ? Default : Threads;
        var listener = new HttpListener();
        listener.Prefixes.Add("http://127.0.0.1:" + args[0] + "/");
        listener.Start();
        for (int n = 1; n < Threads; n++)
            new Thread(() => Serve(listener, page)).Start();
        Serve(listener, page);
    }
}
