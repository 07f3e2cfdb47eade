{ A server in Free Pascal with one habit, given by name: fphttp_app PORT HABIT [DATABASE_PORT].
  Its TFPHTTPServer starts a thread for each request and closes the connection after the answer. }
{$mode objfpc}{$H+}
program fphttp_app;

uses
  cthreads, cwstring, Classes, SysUtils, syncobjs, sqldb, pqconnection, fphttpserver, httpdefs;

const
  PartCount = 4000;
  AskedFor = 12;

type
  { A connection to the database with what is asked there. }
  TLink = class
    Connection: TPQConnection;
    Transaction: TSQLTransaction;
    Query: TSQLQuery;
    constructor Create(Port: Integer; Text: string; WithKey: Boolean);
    function Answer: string;
  end;

  TShop = class(TFPHTTPServer)
  private
    FHabit: string;
    FText: string;
    FDatabase: Integer;
    FGuard: TCriticalSection;
    FFree: TList;
    FParts: TStringList;
    function NewLink: TLink;
    function TakeLink: TLink;
    procedure GiveLink(Link: TLink);
    function Asked: string;
    function AskedInTurn: string;
    function PartsList: string;
  public
    constructor CreateShop(Habit: string; DatabasePort: Integer);
    procedure HandleRequest(var ARequest: TFPHTTPConnectionRequest; var AResponse: TFPHTTPConnectionResponse); override;
  end;

constructor TShop.CreateShop(Habit: string; DatabasePort: Integer);
var
  n: Integer;
begin
  inherited Create(nil);
  FHabit := Habit;
  FDatabase := DatabasePort;
  { What a gauge shows takes 5 ms to come. }
  if Habit.StartsWith('measured') then
    FText := 'select note, pg_sleep(0.005)::text from valves where id = 7'
  else
    FText := 'select note from valves where id = 7';
  FGuard := TCriticalSection.Create;
  FFree := TList.Create;
  FParts := TStringList.Create;
  for n := 1 to PartCount do
    FParts.Add('Ventil ' + IntToStr(n) + ' der Halle ' + IntToStr(n mod 12));
  { Looked up by halves where it is sorted, and from its start where it is not. }
  FParts.Sorted := Habit = 'parts';
end;

function TShop.NewLink: TLink;
begin
  Result := TLink.Create(FDatabase, FText, FHabit = 'valve-with-key');
end;

function TShop.TakeLink: TLink;
begin
  Result := nil;
  FGuard.Enter;
  try
    if FFree.Count > 0 then
    begin
      Result := TLink(FFree.Last);
      FFree.Delete(FFree.Count - 1);
    end;
  finally
    FGuard.Leave;
  end;
  if Result = nil then
    Result := NewLink;
end;

procedure TShop.GiveLink(Link: TLink);
begin
  FGuard.Enter;
  FFree.Add(Link);
  FGuard.Leave;
end;

{ A query that is prepared once for its connection. By default SQLdb asks for the primary key of its table each time
  that it is opened, so as to be able to change rows. }
constructor TLink.Create(Port: Integer; Text: string; WithKey: Boolean);
begin
  Connection := TPQConnection.Create(nil);
  Connection.HostName := '127.0.0.1';
  Connection.Params.Add('port=' + IntToStr(Port));
  Connection.UserName := 'truth';
  Connection.DatabaseName := 'postgres';
  Transaction := TSQLTransaction.Create(nil);
  Transaction.Options := [stoUseImplicit];
  Connection.Transaction := Transaction;
  Query := TSQLQuery.Create(nil);
  Query.DataBase := Connection;
  Query.SQL.Text := Text;
  Query.UsePrimaryKeyAsKey := WithKey;
  Query.ReadOnly := not WithKey;
  Connection.Open;
  Query.Prepare;
end;

function TLink.Answer: string;
begin
  Query.Open;
  Result := Query.Fields[0].AsString;
  Query.Close;
end;

function TShop.Asked: string;
var
  Link: TLink;
begin
  Link := TakeLink;
  try
    Result := Link.Answer;
  finally
    GiveLink(Link);
  end;
end;

{ The one connection of a data module, which is for one thread at a time. }
function TShop.AskedInTurn: string;
begin
  FGuard.Enter;
  try
    if FFree.Count = 0 then
      FFree.Add(NewLink);
    Result := TLink(FFree[0]).Answer;
  finally
    FGuard.Leave;
  end;
end;

function TShop.PartsList: string;
var
  n: Integer;
begin
  Result := '';
  for n := 1 to AskedFor do
    Result := Result + IntToStr(FParts.IndexOf('Ventil ' + IntToStr(PartCount - n * 100) + ' der Halle '
      + IntToStr((PartCount - n * 100) mod 12))) + #10;
end;

procedure TShop.HandleRequest(var ARequest: TFPHTTPConnectionRequest; var AResponse: TFPHTTPConnectionResponse);
begin
  case FHabit of
    'valve', 'valve-with-key', 'measured': AResponse.Content := Asked;
    'measured-in-turn': AResponse.Content := AskedInTurn;
    'parts', 'parts-unsorted': AResponse.Content := PartsList;
  else
    AResponse.Content := StringOfChar('x', 1024);
  end;
  AResponse.ContentType := 'text/plain';
end;

var
  Shop: TShop;
  DatabasePort: Integer = 0;
begin
  if ParamCount > 2 then
    DatabasePort := StrToInt(ParamStr(3));
  Shop := TShop.CreateShop(ParamStr(2), DatabasePort);
  Shop.Address := '127.0.0.1';
  Shop.Port := StrToInt(ParamStr(1));
  Shop.QueueSize := 128;
  Shop.Threaded := True;
  Shop.Active := True;
end.
